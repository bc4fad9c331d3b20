/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a channel that is being opened, put aside while others are.
 *
 * libssh2 keeps it in the session, so that it opens one channel at a time and
 * each waits a round trip for the one before. Its replies name the channel,
 * so there is no other reason. Where the state is, is known only for the
 * libssh2 that tools/build-libssh2.sh makes, which writes it down; with
 * another one, openstate_max() is 1 and nothing is put aside.
 */
#ifndef SBX_TUNNEL_OPENSTATE_H
#define SBX_TUNNEL_OPENSTATE_H

struct openstate; /* NULL: not begun */

/* How many channels may be opening at once. */
unsigned openstate_max(void);
/* Puts what is in *o, if anything, into the LIBSSH2_SESSION: before
 * libssh2_channel_open_ex(). *o is NULL then. */
void openstate_load(void *ssh, struct openstate **o);
/* After that said EAGAIN: takes the state out again, into *o. */
void openstate_save(void *ssh, struct openstate **o);

#endif
