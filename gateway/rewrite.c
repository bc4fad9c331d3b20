/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting of the few fields that carry an address of the application's own.
 * The rule for all: a path that already has the prefix is left alone (the
 * application heeds X-Forwarded-Prefix), so that nothing gets it twice.
 */
#include "config.h"

#include "gateway/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "net/http1.h"

/* True when path is the prefix or lies below it. */
static bool
has_prefix(struct strv path, struct strv prefix)
{
	char c;

	if (!strv_starts(path, prefix))
		return false;
	if (path.len == prefix.len)
		return true;
	c = path.p[prefix.len];
	return c == '/' || c == '?' || c == '#';
}

static void
add(struct rewrite_value *v, struct strv part)
{
	if (part.len > 0)
		v->part[v->n++] = part;
}

static bool
starts_nocase(struct strv s, struct strv prefix)
{
	if (s.len < prefix.len)
		return false;
	s.len = prefix.len;
	return strv_eq_nocase(s, prefix);
}

/* "localhost:8000", "127.0.0.1:8000", "[::1]:8000" */
static bool
is_local(struct strv authority, uint16_t port)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]",
					    "0.0.0.0"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char buf[32];
		int n = snprintf(buf, sizeof(buf), "%s:%u", names[i], port);
		struct strv want = {buf, (size_t)n};

		if (strv_eq_nocase(authority, want))
			return true;
		want.len = strlen(names[i]);
		if (port == 80 && strv_eq_nocase(authority, want))
			return true;
	}
	return false;
}

/* Cuts "http://authority" off *url; false when it is no such URL. */
static bool
cut_origin(struct strv *url, struct strv *origin, struct strv *authority)
{
	size_t skip, i;

	if (starts_nocase(*url, STRV("http://")))
		skip = 7;
	else if (starts_nocase(*url, STRV("https://")))
		skip = 8;
	else
		return false;
	for (i = skip; i < url->len; i++) {
		char c = url->p[i];

		if (c == '/' || c == '?' || c == '#')
			break;
		if (c == '@' || c == '\\')
			return false;
	}
	origin->p = url->p;
	origin->len = i;
	*authority = strv_from(*origin, skip);
	*url = strv_from(*url, i);
	return true;
}

/* A URL becomes a path, unless that would take the client off an https that
 * the application insists on. */
static bool
drops_origin(const struct rewrite *r, struct strv origin, bool local)
{
	return local || r->https || !starts_nocase(origin, STRV("https:"));
}

bool
rewrite_location(const struct rewrite *r, struct strv value,
		 struct rewrite_value *out)
{
	struct strv origin = STRV_NULL, authority = STRV_NULL, path = value;
	bool local = false;

	out->n = 0;
	if (cut_origin(&path, &origin, &authority)) {
		local = is_local(authority, r->port);
		if (!local && !strv_eq_nocase(authority, r->host))
			return false;
		if (drops_origin(r, origin, local))
			origin.len = 0;
	} else if (path.len == 0 || path.p[0] != '/' ||
		   strv_starts(path, STRV("//")) ||
		   strv_starts(path, STRV("/\\"))) {
		return false; /* relative, or another host */
	}
	add(out, origin);
	if (r->prefix.len > 0 && !has_prefix(path, r->prefix))
		add(out, r->prefix);
	if (path.len == 0 || path.p[0] != '/')
		add(out, STRV("/"));
	/* "http://localhost//evil" must not become "//evil". */
	while (out->n == 0 && path.len > 1 &&
	       (path.p[1] == '/' || path.p[1] == '\\'))
		path = strv_from(path, 1);
	add(out, path);
	return !(out->n == 1 && out->part[0].p == value.p &&
		 out->part[0].len == value.len);
}

/* Finds the value of the last Path attribute, as offsets into the value. */
static bool
find_path(struct strv v, struct strv *found)
{
	struct strv rest = v, attr;
	bool any = false;

	(void)strv_cut(&rest, ';', &attr); /* name=value */
	while (strv_cut(&rest, ';', &attr)) {
		ptrdiff_t eq = strv_index(attr, '=');

		if (eq < 0)
			continue;
		if (!strv_eq_nocase(
			strv_trim((struct strv){attr.p, (size_t)eq}),
			STRV("path")))
			continue;
		*found = strv_trim(strv_from(attr, (size_t)eq + 1));
		any = true;
	}
	return any;
}

bool
rewrite_set_cookie(const struct rewrite *r, struct strv value,
		   struct rewrite_value *out)
{
	struct strv path, before = value;

	out->n = 0;
	if (r->prefix.len == 0 || !find_path(value, &path))
		return false; /* the default is below the prefix already */
	if (path.len == 0 || path.p[0] != '/' || has_prefix(path, r->prefix))
		return false;
	before.len = (size_t)(path.p - value.p);
	add(out, before);
	add(out, r->prefix);
	add(out, strv_from(value, before.len));
	return true;
}

struct strv
rewrite_local_host(uint16_t port, char buf[24])
{
	int n = port == 80 ? snprintf(buf, 24, "localhost")
			   : snprintf(buf, 24, "localhost:%u", port);

	return (struct strv){buf, (size_t)n};
}

bool
rewrite_origin(const struct rewrite *r, struct strv value, char buf[32],
	       struct strv *out)
{
	struct strv rest = value, origin, authority;
	char host[24];
	struct strv local;
	int n;

	if (!cut_origin(&rest, &origin, &authority) || rest.len > 0)
		return false;
	if (starts_nocase(origin, STRV("https:")) != r->https ||
	    !strv_eq_nocase(authority, r->host))
		return false;
	local = rewrite_local_host(r->port, host);
	n = snprintf(buf, 32, "http://%.*s", STRV_ARG(local));
	*out = (struct strv){buf, (size_t)n};
	return true;
}

bool
rewrite_is_navigation(const struct http_head *h)
{
	struct strv mode = http1_get(h, H_SEC_FETCH_MODE);
	int i = -1;

	if (h->method != M_GET && h->method != M_HEAD)
		return false;
	if (mode.p != NULL)
		return strv_eq(mode, STRV("navigate"));
	while ((i = http1_next(h, H_ACCEPT, i)) >= 0) {
		struct strv v = http1_value(h, (size_t)i);

		if (memmem(v.p, v.len, "text/html", 9) != NULL)
			return true;
	}
	return false;
}
