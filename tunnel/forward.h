/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forwards of a tunnel. Local listeners stay open while the connection is
 * down; who connects then waits, bounded in number and time. Remote ones are
 * asked for again on every connection; one that fails is retried and never
 * touches the others.
 */
#ifndef SBX_TUNNEL_FORWARD_H
#define SBX_TUNNEL_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct chan;
struct forwards;
struct loop;
struct options;
struct session;
struct spec_end;
struct spread;

struct forwards_cbs {
	/* Every remote forward has been answered since the session came up,
	 * or the number of failed ones has changed after that. */
	void (*settled)(unsigned failed, void *arg);
	/* Somebody waits for the tunnel. */
	void (*wanted)(void *arg);
};

struct forwards *forwards_new(struct loop *l, const struct options *o,
			      const struct forwards_cbs *cbs, void *arg);
void forwards_free(struct forwards *f);
/* Opens the local listeners; says what fails. Returns how many failed. A
 * second call does nothing. */
unsigned forwards_listen(struct forwards *f);
/* The session is up: those who wait go through, remote ones are asked for. */
void forwards_up(struct forwards *f, struct session *s);
void forwards_down(struct forwards *f);
/* Further connections that may take local ones; borrowed. */
void forwards_spread(struct forwards *f, struct spread *sd);
/* One of those came up: those who wait go there. */
void forwards_go(struct forwards *f);
/* A local connection for which no channel came about; takes fd. */
void forwards_back(struct forwards *f, size_t i, int fd);
void forwards_unopened(struct forwards *f, const struct spec_end *target,
		       int fd);
/* The session's answers. */
void forwards_listening(struct forwards *f, void *fwd, int err, uint16_t port);
void forwards_accepted(struct forwards *f, void *fwd, struct chan *c);
/* Adds shell commands that remove the sockets over there which our lost session
 * listened on, where nobody does now: sshd leaves them. */
void forwards_tidy(const struct forwards *f, struct strbuf *out);
/* Adds "forwards":[...] for status lines. */
void forwards_json(const struct forwards *f, struct strbuf *out);

#endif
