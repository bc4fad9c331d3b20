/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel joined to a local stream: bytes both ways under the channel's
 * windows and the streams' marks, an end of one direction passed on as a
 * half-close. It ends when both directions have.
 */
#ifndef SBX_TUNNEL_CHAN_H
#define SBX_TUNNEL_CHAN_H

#include <stdint.h>

struct addr;
struct chan;
struct session;
struct spec_end;

/* Opens a channel to target (borrowed) for a local connection; takes fd, which
 * is closed if the far side refuses, and handed to the session's `unopened` if
 * the session ends first. */
void chan_open(struct session *s, const struct spec_end *target, int fd,
	       const struct addr *peer);
/* Joins an accepted channel to a local connection; takes fd. */
void chan_attach(struct chan *c, int fd);
/* Ends an accepted channel that has nowhere to go. */
void chan_refuse(struct chan *c);
/* Tells the owner of an accepted, not yet attached channel that it is gone. */
void chan_on_gone(struct chan *c, void (*fn)(void *arg), void *arg);

#endif
