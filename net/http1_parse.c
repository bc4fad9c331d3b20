/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP/1.1 head parser: one pass from left to right. Its verdict on a
 * byte never depends on bytes after it, so that a head gets the same answer
 * however it was cut into reads: either a prefix is fine so far, or it is
 * refused and every continuation of it is refused for the same reason.
 */
#include "config.h"

#include "net/http1.h"

#include <string.h>

#include "base/err.h"
#include "net/http1_scan.h"

struct cursor {
	const char *base;
	const char *p;
	const char *end;
	bool full; /* end is the size limit, not just what has arrived */
	struct http_reject *rej;
};

static int
refuse(struct cursor *c, unsigned status, const char *what)
{
	c->rej->status = status;
	c->rej->what = what;
	return status == 431 || status == 414 ? E_LIMIT : E_PROTO;
}

static int
need_more(struct cursor *c)
{
	if (c->full)
		return refuse(c, 431, "head too large");
	return E_AGAIN;
}

static inline bool
is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

static inline uint16_t
offset(const struct cursor *c, const char *p)
{
	return (uint16_t)(p - c->base);
}

/* CRLF at the cursor, after something that ended there. */
static int
take_crlf(struct cursor *c, const char *what)
{
	if (c->p == c->end)
		return need_more(c);
	if (*c->p != '\r')
		return refuse(c, 400, *c->p == '\n' ? "bare LF" : what);
	if (c->p + 1 == c->end)
		return need_more(c);
	if (c->p[1] != '\n')
		return refuse(c, 400, "bare CR");
	c->p += 2;
	return 0;
}

static int
take_version(struct cursor *c, struct http_head *h)
{
	static const char form[8] = "HTTP/d.d";
	size_t i, n = (size_t)(c->end - c->p);

	if (n >= 8 && memcmp(c->p, "HTTP/1.1", 8) == 0) {
		h->minor = 1;
		c->p += 8;
		return 0;
	}
	for (i = 0; i < 8; i++) {
		if (i == n)
			return need_more(c);
		if (form[i] == 'd' ? !is_digit(c->p[i]) : c->p[i] != form[i])
			return refuse(c, 400, "bad version");
	}
	if (c->p[5] != '1' || c->p[7] > '1')
		return refuse(c, 505, "unsupported version");
	h->minor = (uint8_t)(c->p[7] - '0');
	c->p += 8;
	return 0;
}

/* --- request line ------------------------------------------------------ */

static enum http_method
method_id(const char *p, size_t n)
{
#define IS(lit) (memcmp(p, lit, sizeof(lit) - 1) == 0)
	switch (n) {
	case 3:
		return IS("GET") ? M_GET : IS("PUT") ? M_PUT : M_OTHER;
	case 4:
		return IS("POST") ? M_POST : IS("HEAD") ? M_HEAD : M_OTHER;
	case 5:
		return IS("PATCH") ? M_PATCH : IS("TRACE") ? M_TRACE : M_OTHER;
	case 6:
		return IS("DELETE") ? M_DELETE : M_OTHER;
	case 7:
		return IS("OPTIONS")   ? M_OPTIONS
		       : IS("CONNECT") ? M_CONNECT
				       : M_OTHER;
	}
#undef IS
	return M_OTHER;
}

static int
take_method(struct cursor *c, struct http_head *h)
{
	const char *s = c->p;

	c->p = http1_skip_token(s, c->end);
	if (c->p == c->end)
		return need_more(c);
	if (*c->p != ' ' || c->p == s)
		return refuse(c, 400, "bad method");
	h->method_at.off = offset(c, s);
	h->method_at.len = (uint16_t)(c->p - s);
	h->method = method_id(s, (size_t)(c->p - s));
	if (h->method == M_CONNECT)
		return refuse(c, 501, "CONNECT");
	c->p++;
	return 0;
}

/* http://authority[/path]; s is the target, after the scheme's colon. */
static int
split_absolute(struct cursor *c, struct http_head *h, const char *s,
	       const char *end)
{
	const char *auth, *path;

	if (end - s < 3 || s[0] != '/' || s[1] != '/')
		return refuse(c, 400, "bad target");
	auth = s + 2;
	path = memchr(auth, '/', (size_t)(end - auth));
	if (path == NULL)
		path = end;
	/* This refuses user info, and a query right after the authority. */
	if (!http1_host_ok((struct strv){auth, (size_t)(path - auth)}))
		return refuse(c, 400, "bad authority");
	h->absolute = true;
	h->authority_at.off = offset(c, auth);
	h->authority_at.len = (uint16_t)(path - auth);
	if (path == end) {
		/* An empty path is "/": the last slash of the "//". */
		h->path_at.off = offset(c, s + 1);
		h->path_at.len = 1;
	} else {
		h->path_at.off = offset(c, path);
		h->path_at.len = (uint16_t)(end - path);
	}
	return 0;
}

static bool
scheme_is(const char *s, const char *end, const char *scheme, size_t n)
{
	size_t i;

	if ((size_t)(end - s) < n)
		return false;
	for (i = 0; i < n; i++)
		if ((s[i] | 0x20) != scheme[i])
			return false;
	return true;
}

static int
classify_target(struct cursor *c, struct http_head *h)
{
	const char *s = c->base + h->target_at.off;
	const char *end = s + h->target_at.len;

	if (*s == '/')
		return 0;
	if (*s == '*' && end - s == 1) {
		if (h->method == M_OPTIONS)
			return 0;
		return refuse(c, 400, "bad target");
	}
	/* ':' has bit 5 set already */
	if (scheme_is(s, end, "http:", 5))
		return split_absolute(c, h, s + 5, end);
	if (scheme_is(s, end, "https:", 6))
		return split_absolute(c, h, s + 6, end);
	return refuse(c, 400, "bad target");
}

static int
take_target(struct cursor *c, struct http_head *h)
{
	const char *s = c->p, *lim = c->end;

	if (lim - s > HTTP1_TARGET_MAX + 1)
		lim = s + HTTP1_TARGET_MAX + 1;
	c->p = http1_skip_target(s, lim);
	if (c->p - s > HTTP1_TARGET_MAX)
		return refuse(c, 414, "target too long");
	if (c->p == c->end)
		return need_more(c);
	if (*c->p != ' ' || c->p == s)
		return refuse(c, 400, "bad target");
	h->target_at.off = h->path_at.off = offset(c, s);
	h->target_at.len = h->path_at.len = (uint16_t)(c->p - s);
	c->p++;
	return 0;
}

static int
take_request_line(struct cursor *c, struct http_head *h)
{
	int r;

	if ((r = take_method(c, h)) != 0 || (r = take_target(c, h)) != 0 ||
	    (r = take_version(c, h)) != 0 ||
	    (r = take_crlf(c, "bad version")) != 0)
		return r;
	return classify_target(c, h);
}

/* --- status line ------------------------------------------------------- */

static int
take_status_line(struct cursor *c, struct http_head *h)
{
	const char *s;
	unsigned v = 0;
	int i, r;

	if ((r = take_version(c, h)) != 0)
		return r;
	for (i = 0; i < 4; i++, c->p++) {
		if (c->p == c->end)
			return need_more(c);
		if (i == 0 ? *c->p != ' ' : !is_digit(*c->p))
			return refuse(c, 400, "bad status");
		if (i > 0)
			v = v * 10 + (unsigned)(*c->p - '0');
	}
	if (v < 100)
		return refuse(c, 400, "bad status");
	h->status = (uint16_t)v;
	if (c->p == c->end)
		return need_more(c);
	/* "HTTP/1.1 200" CRLF lacks a blank but says nothing else. */
	if (*c->p == ' ')
		c->p++;
	else if (*c->p != '\r')
		return refuse(c, 400, "bad status");
	s = c->p;
	c->p = http1_skip_value(s, c->end);
	h->reason_at.off = offset(c, s);
	h->reason_at.len = (uint16_t)(c->p - s);
	return take_crlf(c, "control byte in reason");
}

/* --- fields that decide something --------------------------------------- */

static int
on_content_length(struct cursor *c, struct http_head *h, struct strv v)
{
	uint64_t n = 0;
	size_t i;

	if (h->has_content_length)
		return refuse(c, 400, "two Content-Length");
	/* 18 digits stay far below 2^63 */
	if (v.len == 0 || v.len > 18)
		return refuse(c, 400, "bad Content-Length");
	for (i = 0; i < v.len; i++) {
		if (!is_digit(v.p[i]))
			return refuse(c, 400, "bad Content-Length");
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	h->has_content_length = true;
	h->content_length = n;
	return 0;
}

static bool
eq_lower(struct strv v, const char *lower, size_t n)
{
	size_t i;

	if (v.len != n)
		return false;
	for (i = 0; i < n; i++) {
		char ch = v.p[i];

		if (ch >= 'A' && ch <= 'Z')
			ch |= 0x20;
		if (ch != lower[i])
			return false;
	}
	return true;
}
#define EQ_LOWER(v, lit) eq_lower(v, lit, sizeof(lit) - 1)

/* What Connection fields said so far. */
struct options {
	bool close, keep_alive, upgrade;
};

static int
on_connection(struct cursor *c, struct http_head *h, struct options *o,
	      struct strv v)
{
	const char *p = v.p, *end = v.p + v.len;

	while (p < end) {
		const char *s = p;
		struct strv tok;

		if (*p == ',' || *p == ' ' || *p == '\t') {
			p++;
			continue;
		}
		p = http1_skip_token(s, end);
		tok = (struct strv){s, (size_t)(p - s)};
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (tok.len == 0 || (p < end && *p != ','))
			return refuse(c, 400, "bad Connection");
		if (EQ_LOWER(tok, "keep-alive"))
			o->keep_alive = true;
		else if (EQ_LOWER(tok, "close"))
			o->close = true;
		else if (EQ_LOWER(tok, "upgrade"))
			o->upgrade = true;
		else if (!http1_is_hop(http1_hdr_id(tok)))
			h->connection_other = true;
	}
	return 0;
}

static int
on_transfer_encoding(struct cursor *c, const struct http_head *h, struct strv v)
{
	if (h->first[H_TRANSFER_ENCODING] != 0)
		return refuse(c, 400, "two Transfer-Encoding");
	if (!EQ_LOWER(v, "chunked"))
		return refuse(c, 400, "bad Transfer-Encoding");
	if (h->minor == 0)
		return refuse(c, 400, "Transfer-Encoding on 1.0");
	return 0;
}

static int
on_request_field(struct cursor *c, struct http_head *h, enum http_hdr id,
		 struct strv v)
{
	if (id == H_HOST) {
		if (h->first[H_HOST] != 0)
			return refuse(c, 400, "two Host");
		if (!http1_host_ok(v))
			return refuse(c, 400, "bad Host");
	} else if (id == H_AUTHORIZATION) {
		if (h->first[H_AUTHORIZATION] != 0)
			return refuse(c, 400, "two Authorization");
	} else if (id == H_X_SANDBOX_TOKEN) {
		if (h->first[H_X_SANDBOX_TOKEN] != 0)
			return refuse(c, 400, "two X-Sandbox-Token");
	} else if (id == H_EXPECT) {
		if (!EQ_LOWER(v, "100-continue"))
			return refuse(c, 417, "bad Expect");
		h->expect_continue = h->minor == 1;
	}
	return 0;
}

static int
on_field(struct cursor *c, struct http_head *h, struct options *o,
	 enum http_hdr id, struct strv v)
{
	if (id == H_CONNECTION)
		return on_connection(c, h, o, v);
	if (id == H_CONTENT_LENGTH)
		return on_content_length(c, h, v);
	if (id == H_TRANSFER_ENCODING)
		return on_transfer_encoding(c, h, v);
	return h->request ? on_request_field(c, h, id, v) : 0;
}

/* --- fields ------------------------------------------------------------ */

/* One field line; the cursor is at its first byte. */
static int
take_field(struct cursor *c, struct http_head *h, struct options *o)
{
	struct http_field *f;
	const char *name = c->p, *colon, *s, *e;
	enum http_hdr id;
	int r;

	colon = http1_skip_token(name, c->end);
	if (colon == c->end)
		return need_more(c);
	if (*colon != ':' || colon == name)
		return refuse(c, 400,
			      *colon == '\n'  ? "bare LF"
			      : colon == name ? "folded or nameless field"
			      : *colon == ' ' ? "blank before colon"
					      : "bad field name");
	if (h->nfields == HTTP1_FIELDS_MAX)
		return refuse(c, 431, "too many fields");
	for (s = colon + 1; s < c->end && (*s == ' ' || *s == '\t');)
		s++;
	c->p = e = http1_skip_value(s, c->end);
	if ((r = take_crlf(c, "control byte in value")) != 0)
		return r;
	while (e > s && (e[-1] == ' ' || e[-1] == '\t'))
		e--;
	id = http1_hdr_id((struct strv){name, (size_t)(colon - name)});
	f = &h->fields[h->nfields];
	f->name_off = offset(c, name);
	f->name_len = (uint16_t)(colon - name);
	f->val_off = offset(c, s);
	f->val_len = (uint16_t)(e - s);
	f->id = (uint16_t)id;
	h->nfields++;
	if (id == H_OTHER)
		return 0;
	if ((r = on_field(c, h, o, id, (struct strv){s, (size_t)(e - s)})) != 0)
		return r;
	if (h->first[id] == 0)
		h->first[id] = (uint8_t)h->nfields;
	return 0;
}

static int
take_fields(struct cursor *c, struct http_head *h, struct options *o)
{
	int r;

	for (;;) {
		if (c->p == c->end)
			return need_more(c);
		if (*c->p == '\r')
			return take_crlf(c, "bare CR");
		if ((r = take_field(c, h, o)) != 0)
			return r;
	}
}

/* What only the whole head can tell. */
static int
finish(struct cursor *c, struct http_head *h, const struct options *o)
{
	bool te = h->first[H_TRANSFER_ENCODING] != 0;

	if (te && h->has_content_length)
		return refuse(c, 400, "Content-Length and Transfer-Encoding");
	h->base = c->base;
	h->len = (uint32_t)(c->p - c->base);
	h->keep_alive = !o->close && (h->minor == 1 || o->keep_alive);
	/* RFC 9110, 7.8: Upgrade means nothing on 1.0. */
	h->wants_upgrade =
	    o->upgrade && h->minor == 1 && h->first[H_UPGRADE] != 0;
	h->body = te                      ? BODY_CHUNKED
		  : h->has_content_length ? BODY_LENGTH
		  : h->request            ? BODY_NONE
					  : BODY_UNTIL_CLOSE;
	return 0;
}

static int
finish_request(struct cursor *c, struct http_head *h)
{
	struct strv host;

	if (h->first[H_HOST] == 0)
		return refuse(c, 400, "no Host");
	if (!h->absolute)
		return 0;
	/* RFC 9112, 3.2.2 has servers ignore Host here; two hosts that differ
	 * are what attacks on such rules are made of. */
	host = http1_get(h, H_HOST);
	if (!strv_eq_nocase(host, http1_authority(h)))
		return refuse(c, 400, "Host differs from the target");
	return 0;
}

/* --- entry ------------------------------------------------------------- */

/*
 * For input that comes in pieces: could a parse of p[0..n) say more than "go
 * on", seeing that one of p[0..from) could not? Only once there is a line end
 * that is bare or the last one.
 */
static bool
worth_parsing(const char *p, size_t from, size_t n)
{
	const char *q = p + (from < n ? from : n), *end = p + n;

	for (; (q = memchr(q, '\n', (size_t)(end - q))) != NULL; q++) {
		if (q - p < 3 || q[-1] != '\r' || q[-2] == '\n')
			return true;
	}
	return false;
}

static int
parse(const char *p, size_t n, size_t *scanned, struct http_head *h,
      struct http_reject *rej, bool request)
{
	struct options o = {false, false, false};
	struct cursor c = {p, p, p + n, false, rej};
	int r;

	if (n >= HTTP1_HEAD_MAX) {
		c.end = p + HTTP1_HEAD_MAX;
		c.full = true;
	} else if (*scanned != 0 && !worth_parsing(p, *scanned, n)) {
		*scanned = n;
		return E_AGAIN;
	}
	memset(h, 0, offsetof(struct http_head, fields));
	h->request = request;
	r = request ? take_request_line(&c, h) : take_status_line(&c, h);
	if (r == 0 && (r = take_fields(&c, h, &o)) == 0 &&
	    (r = finish(&c, h, &o)) == 0 && request)
		r = finish_request(&c, h);
	*scanned = r == E_AGAIN ? n : 0;
	return r;
}

int
http1_parse_request(const char *p, size_t n, size_t *scanned,
		    struct http_head *out, struct http_reject *rej)
{
	return parse(p, n, scanned, out, rej, true);
}

int
http1_parse_response(const char *p, size_t n, size_t *scanned,
		     struct http_head *out, struct http_reject *rej)
{
	int r = parse(p, n, scanned, out, rej, false);

	if (r != 0 && r != E_AGAIN)
		rej->status = 502;
	return r;
}

int
http1_response_body(struct http_head *h, enum http_method req)
{
	bool te = h->first[H_TRANSFER_ENCODING] != 0;

	if (h->status < 200 || h->status == 204) {
		/* RFC 9110, 8.6 and RFC 9112, 6.1 forbid both. A length of 0
		 * is common with 204 and says the same. */
		if (te || h->content_length != 0)
			return E_PROTO;
		h->body = BODY_NONE;
		return 0;
	}
	if (req == M_HEAD || h->status == 304) {
		h->body = BODY_NONE;
		return 0;
	}
	h->body = te                      ? BODY_CHUNKED
		  : h->has_content_length ? BODY_LENGTH
					  : BODY_UNTIL_CLOSE;
	if (h->body == BODY_UNTIL_CLOSE)
		h->keep_alive = false;
	return 0;
}

enum http_body
http1_onward_body(const struct http_head *h)
{
	if (h->body != BODY_NONE)
		return h->body;
	if (h->status == 204)
		return BODY_NONE;
	if (h->has_content_length)
		return BODY_LENGTH;
	return h->status == 304 ? BODY_NONE : BODY_UNTIL_CLOSE;
}
