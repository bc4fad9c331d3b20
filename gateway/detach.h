/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a program that is to outlive us and is nobody's child. */
#ifndef SBX_GATEWAY_DETACH_H
#define SBX_GATEWAY_DETACH_H

#include "base/defs.h"

/*
 * Starts path (looked for in PATH when it has no slash) in a session of its
 * own, with nothing of our environment but PATH, LANG and TZ. fds become its
 * descriptors 3, 4, ...; 0 to 2 are /dev/null. Returns when it has become that
 * program; 0 or -1 with errno.
 */
int detach_start(const char *path, char *const *argv, const int *fds,
		 unsigned nfds) SBX_MUST_CHECK;

#endif
