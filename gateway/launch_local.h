/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of jobs on this machine: one `sbx-agent job` for each. */
#ifndef SBX_GATEWAY_LAUNCH_LOCAL_H
#define SBX_GATEWAY_LAUNCH_LOCAL_H

#include "gateway/launch.h"

int launch_local_new(const struct launch_options *o, struct launcher **out,
		     char **why) SBX_MUST_CHECK;

#endif
