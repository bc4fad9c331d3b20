/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asked, over what, for which host: X-Forwarded-For, -Proto, -Host, -Port,
 * -Prefix, Forwarded (RFC 7239) and X-Request-Id. What a peer said of these is
 * dropped, unless it is one that configuration trusts: then ours is added to
 * it.
 */
#ifndef SBX_GATEWAY_FORWARDED_H
#define SBX_GATEWAY_FORWARDED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "net/addr.h"
#include "net/http1.h"

struct forwarded {
	const struct http_head *head; /* the request, for a trusted peer's */
	const struct addr *peer;
	bool trusted;
	bool https;
	struct strv host;   /* as the client wrote it */
	struct strv prefix; /* empty: none was taken off */
	struct strv id;     /* the request's */
};

/* Fields that forwarded_put() answers for: never copied. */
bool forwarded_owns(enum http_hdr id);
/* Bytes that forwarded_put() writes at most. */
size_t forwarded_room(const struct forwarded *f);
void forwarded_put(struct http_writer *w, const struct forwarded *f);

/* "https", "://", "host:port": as the client reached us, by what a trusted peer
 * says where it does. */
void forwarded_origin(const struct forwarded *f, struct strv out[3]);

bool forwarded_trusts(const struct addr_net *nets, size_t n,
		      const struct addr *peer);
/* A request id that somebody sent: 1-128 of [A-Za-z0-9._:+/=-], else empty. */
struct strv forwarded_id(const struct http_head *h);

#endif
