/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS session ticket keys: made and rotated by the master, sent to all
 * workers, so that a session resumes on any of them.
 */
#ifndef SBX_GATEWAY_TLSKEYS_H
#define SBX_GATEWAY_TLSKEYS_H

#include "base/defs.h"
#include "base/str.h"
#include "net/tlsctx.h"

/* A fresh key in front; the oldest falls out. */
void tlskeys_rotate(struct tls_ticket_keys *k);
/* " hex hex…", first one encrypts. */
void tlskeys_add(const struct tls_ticket_keys *k, struct strbuf *out);
/* "hex hex…"; E_INVALID. */
int tlskeys_parse(struct strv text, struct tls_ticket_keys *out) SBX_MUST_CHECK;

#endif
