/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked of a parsed head. Everything is a view into the head's
 * bytes at h->base.
 */
#include "config.h"

#include "net/http1.h"

#include <string.h>

#include "net/http1_scan.h"

#define VIEW(h, at) ((struct strv){(h)->base + (h)->at.off, (h)->at.len})

void
http1_rebase(struct http_head *h, const char *base)
{
	h->base = base;
}

struct strv
http1_method(const struct http_head *h)
{
	return VIEW(h, method_at);
}

struct strv
http1_target(const struct http_head *h)
{
	return VIEW(h, target_at);
}

struct strv
http1_path(const struct http_head *h)
{
	return VIEW(h, path_at);
}

struct strv
http1_authority(const struct http_head *h)
{
	if (!h->absolute)
		return STRV_NULL;
	return VIEW(h, authority_at);
}

struct strv
http1_reason(const struct http_head *h)
{
	return VIEW(h, reason_at);
}

struct strv
http1_name(const struct http_head *h, size_t i)
{
	return (struct strv){h->base + h->fields[i].name_off,
			     h->fields[i].name_len};
}

struct strv
http1_value(const struct http_head *h, size_t i)
{
	return (struct strv){h->base + h->fields[i].val_off,
			     h->fields[i].val_len};
}

struct strv
http1_get(const struct http_head *h, enum http_hdr id)
{
	if (h->first[id] == 0)
		return STRV_NULL;
	return http1_value(h, (size_t)h->first[id] - 1);
}

int
http1_next(const struct http_head *h, enum http_hdr id, int i)
{
	if (i < 0 && id != H_OTHER)
		return h->first[id] - 1;
	for (i++; i < h->nfields; i++)
		if (h->fields[i].id == id)
			return i;
	return -1;
}

size_t
http1_count(const struct http_head *h, enum http_hdr id)
{
	size_t n = 0;
	int i;

	for (i = http1_next(h, id, -1); i >= 0; i = http1_next(h, id, i))
		n++;
	return n;
}

struct strv
http1_find(const struct http_head *h, struct strv name)
{
	enum http_hdr id = http1_hdr_id(name);
	int i;

	if (id != H_OTHER)
		return http1_get(h, id);
	for (i = http1_next(h, H_OTHER, -1); i >= 0;
	     i = http1_next(h, H_OTHER, i))
		if (strv_eq_nocase(http1_name(h, (size_t)i), name))
			return http1_value(h, (size_t)i);
	return STRV_NULL;
}

/* The end of the list element at p: the next comma outside quotes. */
static const char *
element_end(const char *p, const char *end)
{
	bool quoted = false;

	for (; p < end; p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (quoted && *p == '\\' && p + 1 < end)
			p++;
		else if (!quoted && *p == ',')
			break;
	}
	return p;
}

bool
http1_list_has(struct strv list, struct strv token)
{
	const char *p = list.p, *end;

	if (list.len == 0)
		return false;
	for (end = p + list.len; p < end;) {
		const char *e = element_end(p, end);
		struct strv el = {p, (size_t)(e - p)};

		if (strv_eq_nocase(strv_trim(el), token))
			return true;
		p = e + 1;
	}
	return false;
}

bool
http1_connection_names(const struct http_head *h, struct strv name)
{
	int i;

	for (i = http1_next(h, H_CONNECTION, -1); i >= 0;
	     i = http1_next(h, H_CONNECTION, i))
		if (http1_list_has(http1_value(h, (size_t)i), name))
			return true;
	return false;
}

bool
http1_token_ok(struct strv s)
{
	return s.len > 0 && http1_skip_token(s.p, s.p + s.len) == s.p + s.len;
}

bool
http1_value_ok(struct strv s)
{
	return s.len == 0 || http1_skip_value(s.p, s.p + s.len) == s.p + s.len;
}

static bool
port_ok(const char *p, const char *end)
{
	unsigned v = 0;

	if (p == end || end - p > 5)
		return false;
	for (; p < end; p++) {
		if (!(*p >= '0' && *p <= '9'))
			return false;
		v = v * 10 + (unsigned)(*p - '0');
	}
	return v <= 65535;
}

bool
http1_host_ok(struct strv s)
{
	static const char v6[] = "0123456789abcdefABCDEF:.";
	const char *p = s.p, *q = p, *end = p + s.len;

	if (p < end && *p == '[') {
		for (q++; q < end && *q != ']'; q++)
			if (memchr(v6, *q, sizeof(v6) - 1) == NULL)
				return false;
		if (q == end || q - p < 3)
			return false;
		q++;
	} else {
		q = http1_skip(p, end, HTTP1_HOST_CH);
		if (q == p)
			return false;
	}
	return q == end || (*q == ':' && port_ok(q + 1, end));
}
