/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a configuration needs before it can be served: everything about it that
 * can be refused, found out before anything is changed by it.
 */
#ifndef SBX_GATEWAY_PREPARE_H
#define SBX_GATEWAY_PREPARE_H

#include <stdbool.h>

#include "base/defs.h"
#include "gateway/gwconf.h"
#include "gateway/state.h"

/* Directories, log files and certificates; who the workers are. *msg:
 * malloc'ed reason. */
int prepare_conf(const struct gw_conf *conf, bool single,
		 struct state_user *user, char **msg) SBX_MUST_CHECK;
/* E_INVALID when conf wants what a reload cannot give: the lock and the
 * embedded agent stay where they are. */
int prepare_same(const struct gw_conf *old, const struct gw_conf *conf,
		 bool agent, char **msg) SBX_MUST_CHECK;
int prepare_log(const struct gw_conf *conf, char **msg) SBX_MUST_CHECK;

#endif
