/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses; see the header. */
#include "config.h"

#include "cli/status.h"

#include "cli/place.h"

int
status_of_exit(const struct json *v)
{
	uint64_t code = 0, sig = 0;
	bool timed_out = false;

	if (json_bool(json_get(v, "timed_out"), &timed_out) == 0 && timed_out)
		return EXIT_TIMED_OUT;
	if (json_u64(json_get(v, "signal"), 127, &sig) == 0)
		return 128 + (int)sig;
	if (json_u64(json_get(v, "exit_code"), 255, &code) == 0)
		return (int)code;
	return EXIT_OURS;
}
