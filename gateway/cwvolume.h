/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes of a sandbox: scratch volumes of its job. */
#ifndef SBX_GATEWAY_CWVOLUME_H
#define SBX_GATEWAY_CWVOLUME_H

#include <stdbool.h>

#include "gateway/cwcall.h"
#include "gateway/jobspec.h"

/* spec: a SandboxSpec with one container. Adds its volumes, each at the place
 * where it is mounted, and what one of them begins with. False: the call has
 * failed. */
bool cwvolume_take(struct cwcall *c, const struct cwmsg *spec,
		   struct job_spec *s);

#endif
