/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of net/ share: a loop that is run until a condition holds (or
 * the test fails), an owner that writes down what a stream told it, and raw
 * socket ends.
 */
#ifndef SBX_TEST_NET_HELP_H
#define SBX_TEST_NET_HELP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/loop.h"
#include "net/stream.h"

/* Streams made by owner_start() get a fault layer when this is not 0. */
extern uint32_t help_fault_seed;
/* A seed to begin with: FAULT_SEED in the environment, or 1. */
uint32_t help_seed(void);

/* Runs the loop until cond holds; fails the test after ten seconds. */
void help_wait(struct loop *l, bool (*cond)(void *), void *arg);
bool help_true(void *arg); /* *(bool *)arg */
/* Runs whatever is ready, a few rounds, without waiting. */
void help_settle(struct loop *l);
/* Milliseconds of loop time pass. */
void help_pass(struct loop *l, uint64_t ms);

/* Connected, non-blocking ends: a socketpair, or TCP on loopback. */
void help_pair(int fds[2]);
void help_tcp_pair(int fds[2]);
/* Number of descriptors this process has open. */
int help_fd_count(void);

/* An owner of a stream. */
struct owner {
	struct stream *st;
	struct strbuf got; /* everything that came, in order */
	int readable, drained, eof, errors, ready;
	int err;
	bool keep;              /* leave the input where it is */
	bool close_on_readable; /* ... and so on: close from inside */
	bool close_on_drained;
	bool close_on_eof;
	bool keep_on_error; /* do not close in `error` */
	size_t eof_at;      /* bytes got when eof was told */
};
extern const struct stream_cbs owner_cbs;
void owner_start(struct owner *o, struct loop *l, int fd);
void owner_clear(struct owner *o);
bool owner_saw_eof(void *o);
bool owner_saw_error(void *o);
bool owner_saw_ready(void *o);

/* Waits until o got at least n bytes. */
void owner_wait_bytes(struct owner *o, struct loop *l, size_t n);

/* The other end of a stream, without one: non-blocking reads and writes that
 * run the loop meanwhile. */
void raw_write(struct loop *l, int fd, const void *p, size_t n);
/* Reads exactly n bytes. */
void raw_read(struct loop *l, int fd, void *p, size_t n);
/* Reads to the end (FIN); 0, or the errno that came instead. */
int raw_read_end(struct loop *l, int fd, struct strbuf *b);

/* n bytes that tell their place. */
void help_pattern(char *p, size_t n, unsigned salt);

#endif
