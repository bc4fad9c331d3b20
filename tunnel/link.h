/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A way to the server: looks its name up, connects, and has a session over
 * that. One attempt at a time; who owns it decides when to try again.
 */
#ifndef SBX_TUNNEL_LINK_H
#define SBX_TUNNEL_LINK_H

struct auth;
struct link;
struct loop;
struct options;
struct session;
struct session_cbs;

/* Everything is borrowed. cbs->down is also called, with OpenSSH's words, when
 * no session came about; link_close() is left to do then, too. */
struct link *link_new(struct loop *l, const struct options *o,
		      const struct auth *a, const struct session_cbs *cbs,
		      void *arg);
void link_free(struct link *k);
/* Begins an attempt; closed before, or new. */
void link_open(struct link *k);
/* Ends the attempt or the session; no callback follows. */
void link_close(struct link *k);
struct session *link_session(const struct link *k); /* NULL: none yet */

#endif
