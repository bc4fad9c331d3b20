/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher that starts, watches and ends jobs by configured commands. */
#ifndef SBX_GATEWAY_LAUNCH_COMMAND_H
#define SBX_GATEWAY_LAUNCH_COMMAND_H

#include "gateway/launch.h"

/* name: of a [launcher NAME] section. */
int launch_command_new(const struct launch_options *o, const char *name,
		       struct launcher **out, char **why) SBX_MUST_CHECK;

enum launch_command_state { CMD_PENDING, CMD_RUNNING, CMD_ENDED, CMD_UNKNOWN };
/* What a status command's output says; *code: how it ended (-1: unknown). */
enum launch_command_state launch_command_parse(const char *text, int *code);

#endif
