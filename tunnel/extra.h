/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A further SSH connection of a tunnel, in a process of its own: it opens
 * channels for local connections that it is given. What it talks about with
 * the tunnel's own process, over a socket pair, one message each:
 *
 *	to it	"open N" with a descriptor: for forward N
 *	from it	"up"; "down REASON"
 *		"load GIVEN DONE OPENING": of so many that were given since the
 *		start so many have ended, and so many are being opened
 *		"back N" with the descriptor: not possible just now
 */
#ifndef SBX_TUNNEL_EXTRA_H
#define SBX_TUNNEL_EXTRA_H

struct auth;
struct options;

/* Runs until the other end of fd, which it takes, is closed. */
void extra_run(const struct options *o, const struct auth *a, int fd);

#endif
