/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libssh2's chacha20-poly1305 functions with their names and arguments; see
 * chachapoly.c. Nobody but libssh2 (and a test) calls them.
 */
#ifndef SBX_TUNNEL_CHACHAPOLY_H
#define SBX_TUNNEL_CHACHAPOLY_H

#define CHACHAPOLY_KEY 32

/* Half of libssh2's, which allocates it. */
struct chachapoly_ctx {
	unsigned char main[CHACHAPOLY_KEY];
	unsigned char header[CHACHAPOLY_KEY];
};

int chachapoly_init(struct chachapoly_ctx *c, const unsigned char *key,
		    unsigned keylen);
/* En- or decrypts aadlen bytes of header and len bytes after it; the tag comes
 * after those. 0, or LIBSSH2_ERROR_DECRYPT. */
int chachapoly_crypt(struct chachapoly_ctx *c, unsigned seq,
		     unsigned char *dest, const unsigned char *src,
		     unsigned len, unsigned aadlen, int encrypt);
/* The packet's length out of its first four bytes. 0, or -1. */
int chachapoly_get_length(struct chachapoly_ctx *c, unsigned *out, unsigned seq,
			  const unsigned char *p, unsigned n);

#endif
