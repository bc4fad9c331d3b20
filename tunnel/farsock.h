/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets of the far side that are listened on (OpenSSH's
 * streamlocal-forward), which libssh2 does not know.
 *
 * To libssh2 such a socket is a port of a host that is called like its path.
 * On their way between libssh2's channels and its encryption the two messages
 * that concern it are put into the other words: the request to listen, and the
 * opening of a channel. That is possible only with the static libssh2 that
 * tools/build-libssh2.sh makes (configure tests for it).
 */
#ifndef SBX_TUNNEL_FARSOCK_H
#define SBX_TUNNEL_FARSOCK_H

#include <stdbool.h>
#include <stddef.h>

#define FARSOCK_PORT 1         /* any but 0, which asks for another */
#define FARSOCK_MAX  (4 + 512) /* of a translated request */

/* Translates what libssh2 sends, if it is such a request; its length then, or
 * 0: it goes out as it is. */
size_t farsock_out(const unsigned char *p, size_t n,
		   unsigned char out[FARSOCK_MAX]);
/* Translates what came in, in place; the length, which never grows. */
size_t farsock_in(unsigned char *p, size_t n);
/* Whether this libssh2 passes its messages by here. */
bool farsock_works(void);

#endif
