/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of what comes in pieces (through OpenSSL); tls_sha256() is for what
 * is there at once. */
#ifndef SBX_NET_TLSSHA_H
#define SBX_NET_TLSSHA_H

#include <stddef.h>
#include <stdint.h>

#define TLSSHA_LEN 32

struct tlssha;

/* All that OpenSSL has to look up is looked up here: it may be used in a
 * chroot afterwards. NULL: OpenSSL is not able to. */
struct tlssha *tlssha_new(void);
void tlssha_free(struct tlssha *h);
void tlssha_add(struct tlssha *h, const void *p, size_t n);
/* Of all that was added; nothing may be added any more. */
void tlssha_end(struct tlssha *h, uint8_t out[TLSSHA_LEN]);

#endif
