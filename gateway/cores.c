/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many cores this process may really use. A container with a quota of one
 * core on a machine of 64 has all 64 in its affinity mask: a worker for each
 * would only take turns.
 */
#include "config.h"

#include "gateway/cores.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/fdio.h"
#include "base/str.h"

#define CORES_MAX 256

/* cgroup v2: "QUOTA PERIOD" or "max PERIOD", in microseconds. 0: no bound. */
static unsigned
quota(void)
{
	struct strv rest, q, p;
	uint64_t qv, pv;
	unsigned n = 0;
	char *text;
	size_t len;

	if (file_read("/sys/fs/cgroup/cpu.max", 128, &text, &len) != 0)
		return 0;
	rest = (struct strv){text, len};
	if (strv_cut(&rest, ' ', &q) && strv_cut(&rest, '\n', &p) &&
	    strv_parse_u64(q, UINT32_MAX, true, &qv) == 0 &&
	    strv_parse_u64(p, UINT32_MAX, true, &pv) == 0 && pv != 0)
		n = (unsigned)((qv + pv - 1) / pv);
	free(text);
	return n;
}

unsigned
cores_usable(void)
{
	unsigned n = 1, q = quota();
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		n = (unsigned)CPU_COUNT(&set);
	if (q != 0 && q < n)
		n = q;
	return n > CORES_MAX ? CORES_MAX : n;
}
