/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory, and who the workers are. */
#ifndef SBX_GATEWAY_STATE_H
#define SBX_GATEWAY_STATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/defs.h"
#include "gateway/gwconf.h"

struct state_user {
	uid_t uid;
	gid_t gid;
	bool drop; /* workers must change to it */
};

/* conf->user, or sbx, or nobody, when we are root; else ourselves. */
int state_user(const struct gw_conf *conf, struct state_user *out,
	       char **msg) SBX_MUST_CHECK;
/* Gives up root for good: groups, gid, uid, then makes sure. */
int state_drop(const struct state_user *u) SBX_MUST_CHECK;

/* Makes the directories, and the files that workers must be able to open
 * again (logs), with their owners. *msg: malloc'ed reason. */
int state_prepare(const struct gw_conf *conf, const struct state_user *u,
		  char **msg) SBX_MUST_CHECK;
/* One gateway per state directory: the lock's descriptor in *fd. */
int state_lock(const struct gw_conf *conf, int *fd, char **msg) SBX_MUST_CHECK;

#endif
