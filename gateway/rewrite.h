/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be said differently inside than outside: Host and Origin for
 * development servers that answer to localhost only, Location and the Path of
 * cookies for applications that do not know below which prefix they are seen.
 * Views in, views out; nothing is allocated.
 */
#ifndef SBX_GATEWAY_REWRITE_H
#define SBX_GATEWAY_REWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct http_head;

struct rewrite {
	struct strv prefix; /* what the public path has in front; empty: none */
	struct strv host;   /* the public Host */
	bool https;         /* the public scheme */
	uint16_t port;      /* the application's */
};

/* A value in pieces, to be written one after the other. */
#define REWRITE_PARTS 4
struct rewrite_value {
	struct strv part[REWRITE_PARTS];
	size_t n;
};

/*
 * Location: a path, or a URL of our public origin or of localhost:<port>, gets
 * the prefix unless it has it already; localhost becomes a path. Everything
 * else stays. False: send the value as it is.
 */
bool rewrite_location(const struct rewrite *r, struct strv value,
		      struct rewrite_value *out);
/*
 * Set-Cookie: the Path that counts (the last) gets the prefix in the same way,
 * so that the applications behind one host do not see one another's cookies. A
 * __Host- cookie, which must have "/", is then refused by browsers: better
 * than sent to everybody; such an application wants the host form.
 */
bool rewrite_set_cookie(const struct rewrite *r, struct strv value,
			struct rewrite_value *out);
/* "localhost:8000" into buf (24 bytes). */
struct strv rewrite_local_host(uint16_t port, char buf[24]);
/* Origin, for the localhost policy: true when it is the public origin, and
 * then buf (32 bytes) has the inner one. Foreign origins stay. */
bool rewrite_origin(const struct rewrite *r, struct strv value, char buf[32],
		    struct strv *out);

/* A person's browser goes to a page (not a script's fetch, not an image). */
bool rewrite_is_navigation(const struct http_head *h);

#endif
