/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking work (the disk) off the loop: a few threads that run one job each,
 * and tell the loop when it is done.
 */
#ifndef SBX_AGENT_WORK_H
#define SBX_AGENT_WORK_H

#include <stddef.h>

struct loop;
struct work;

struct work *work_new(struct loop *l, unsigned threads);
/* Waits for the jobs that run; those that wait are dropped, without a word. */
void work_free(struct work *w);
/* fn(arg) runs on a thread, then done(arg) on the loop. Whatever fn touches is
 * its own until then. */
void work_submit(struct work *w, void (*fn)(void *arg), void (*done)(void *arg),
		 void *arg);

#endif
