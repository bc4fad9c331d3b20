/* SPDX-License-Identifier: Apache-2.0 */
/* The forwarding fields, all in one place so that none can be forgotten. */
#include "config.h"

#include "gateway/forwarded.h"

#include <stdio.h>
#include <string.h>

bool
forwarded_owns(enum http_hdr id)
{
	switch ((int)id) {
	case H_FORWARDED:
	case H_X_FORWARDED_FOR:
	case H_X_FORWARDED_HOST:
	case H_X_FORWARDED_PORT:
	case H_X_FORWARDED_PREFIX:
	case H_X_FORWARDED_PROTO:
	case H_X_REAL_IP:
	case H_X_REQUEST_ID:
		return true;
	default:
		return false;
	}
}

bool
forwarded_trusts(const struct addr_net *nets, size_t n, const struct addr *peer)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (addr_net_has(&nets[i], peer))
			return true;
	}
	return false;
}

struct strv
forwarded_id(const struct http_head *h)
{
	struct strv v = http1_get(h, H_X_REQUEST_ID);
	size_t i;

	if (v.len < 1 || v.len > 128)
		return STRV_NULL;
	for (i = 0; i < v.len; i++) {
		char c = v.p[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		    (c >= '0' && c <= '9') || strchr("._:+/=-", c) != NULL)
			continue;
		return STRV_NULL;
	}
	return v;
}

size_t
forwarded_room(const struct forwarded *f)
{
	/* names, separators, two addresses, twice the host */
	return 480 + 2 * f->host.len + f->prefix.len + f->id.len;
}

/* What the peer sent of a list field, all of them, then ours. */
static void
put_list(struct http_writer *w, const struct forwarded *f, enum http_hdr id,
	 struct strv ours)
{
	struct strv part[HTTP1_FIELDS_MAX * 2 + 1];
	size_t n = 0;
	int i = -1;

	if (f->trusted) {
		while ((i = http1_next(f->head, id, i)) >= 0) {
			part[n] = http1_value(f->head, (size_t)i);
			if (part[n].len == 0)
				continue;
			part[n + 1] = STRV(", ");
			n += 2;
		}
	}
	part[n++] = ours;
	http1_put_parts(w, http1_hdr_name(id), part, n);
}

/* The peer's first value, or ours. */
static void
put_one(struct http_writer *w, const struct forwarded *f, enum http_hdr id,
	struct strv ours)
{
	struct strv v = STRV_NULL;

	if (f->trusted)
		v = http1_get(f->head, id);
	if (v.len == 0)
		v = ours;
	if (v.len > 0)
		http1_put(w, http1_hdr_name(id), v);
}

/* The port that the client used: in its Host, else the scheme's. */
static struct strv
public_port(const struct forwarded *f)
{
	size_t i = f->host.len;

	while (i > 0 && f->host.p[i - 1] >= '0' && f->host.p[i - 1] <= '9')
		i--;
	if (i > 0 && i < f->host.len && f->host.p[i - 1] == ':')
		return strv_from(f->host, i);
	return f->https ? STRV("443") : STRV("80");
}

static void
put_forwarded(struct http_writer *w, const struct forwarded *f, struct strv ip)
{
	struct strv scheme = f->https ? STRV("https") : STRV("http");
	bool v6 = strv_index(ip, ':') >= 0;
	struct strv part[HTTP1_FIELDS_MAX * 2 + 8];
	size_t n = 0;
	int i = -1;

	while (f->trusted && (i = http1_next(f->head, H_FORWARDED, i)) >= 0) {
		part[n] = http1_value(f->head, (size_t)i);
		if (part[n].len == 0)
			continue;
		part[n + 1] = STRV(", ");
		n += 2;
	}
	part[n++] = v6 ? STRV("for=\"[") : STRV("for=");
	part[n++] = ip;
	part[n++] = v6 ? STRV("]\";host=\"") : STRV(";host=\"");
	part[n++] = f->host; /* checked by the parser: no quotes in it */
	part[n++] = STRV("\";proto=");
	part[n++] = scheme;
	http1_put_parts(w, STRV("Forwarded"), part, n);
}

static void
put_prefix(struct http_writer *w, const struct forwarded *f)
{
	struct strv part[2] = {STRV_NULL, f->prefix};

	if (f->trusted)
		part[0] = http1_get(f->head, H_X_FORWARDED_PREFIX);
	while (part[0].len > 0 && part[0].p[part[0].len - 1] == '/')
		part[0].len--;
	if (part[0].len + part[1].len > 0)
		http1_put_parts(w, STRV("X-Forwarded-Prefix"), part, 2);
}

/* What a trusted peer said of one of these, if it is something plain. */
static struct strv
told(const struct forwarded *f, enum http_hdr id)
{
	struct strv v = f->trusted ? http1_get(f->head, id) : STRV_NULL;

	if (id == H_X_FORWARDED_PROTO)
		return strv_eq(v, STRV("http")) || strv_eq(v, STRV("https"))
			   ? v
			   : STRV_NULL;
	return v.len > 0 && http1_host_ok(v) ? v : STRV_NULL;
}

void
forwarded_origin(const struct forwarded *f, struct strv out[3])
{
	struct strv proto = told(f, H_X_FORWARDED_PROTO);
	struct strv host = told(f, H_X_FORWARDED_HOST);

	out[0] = proto.len > 0 ? proto
		 : f->https    ? STRV("https")
			       : STRV("http");
	out[1] = STRV("://");
	out[2] = host.len > 0 ? host : f->host;
}

void
forwarded_put(struct http_writer *w, const struct forwarded *f)
{
	char text[ADDR_TEXT_MAX];
	struct strv ip = strv_of(addr_ip_text(f->peer, text));

	if (strv_eq(ip, STRV("unix")))
		ip = STRV("unknown"); /* RFC 7239, 6.2 */
	put_list(w, f, H_X_FORWARDED_FOR, ip);
	put_one(w, f, H_X_FORWARDED_PROTO,
		f->https ? STRV("https") : STRV("http"));
	put_one(w, f, H_X_FORWARDED_HOST, f->host);
	put_one(w, f, H_X_FORWARDED_PORT, public_port(f));
	put_prefix(w, f);
	put_forwarded(w, f, ip);
	http1_put(w, STRV("X-Request-Id"), f->id);
}
