/* SPDX-License-Identifier: Apache-2.0 */
/* ANY proxy/<port>[/path]: the server inside. */
#include "config.h"

#include "agent/api_int.h"

void
api_proxy(struct call *c)
{
	api_error(c->rq, 501, "unsupported", "not yet");
}
