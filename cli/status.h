/* SPDX-License-Identifier: Apache-2.0 */
/* What a command ended with, as an exit status of ours. */
#ifndef SBX_CLI_STATUS_H
#define SBX_CLI_STATUS_H

#include "base/json.h"

/* Of an exit event. */
int status_of_exit(const struct json *v);

#endif
