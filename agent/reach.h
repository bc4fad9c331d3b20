/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking up and connecting to a sandbox's socket file where sandbox_connect()
 * says that only the disk knows it: on a thread, as one of the file operations
 * of that sandbox.
 */
#ifndef SBX_AGENT_REACH_H
#define SBX_AGENT_REACH_H

#include <stdint.h>

struct reach;
struct sandbox;

/* done is called later, once: err as sandbox_connect() has it, or E_TIMEOUT
 * when the disk does not answer; fd (-1 on failure) is the callee's. */
struct reach *reach_start(struct sandbox *sb, uint16_t port,
			  void (*done)(int err, int fd, void *arg), void *arg);
/* done is not called any more. NULL is fine. */
void reach_cancel(struct reach *x);

#endif
