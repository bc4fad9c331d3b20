/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request's Host and target mean. Decided on the raw bytes: nothing is
 * decoded, folded or normalised, so what is routed is what was sent, and
 * whatever does not look exactly like one of our forms is not one.
 */
#include "config.h"

#include <string.h>

#include "base/err.h"
#include "gateway/cwname.h"
#include "gateway/gwconf.h"
#include "gateway/route.h"

bool
route_id_ok(struct strv id)
{
	size_t i;

	if (id.len < 1 || id.len > SANDBOX_ID_MAX)
		return false;
	if (id.p[0] == '-' || id.p[id.len - 1] == '-')
		return false;
	for (i = 0; i < id.len; i++) {
		char c = id.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    c != '-')
			return false;
		if (c == '-' && id.p[i - 1] == '-')
			return false;
	}
	return true;
}

/* As route_id_ok(), for a host name: those have no case. */
static bool
host_id_ok(struct strv id)
{
	char low[SANDBOX_ID_MAX];
	size_t i;

	if (id.len > sizeof(low))
		return false;
	for (i = 0; i < id.len; i++) {
		low[i] = id.p[i];
		if (low[i] >= 'A' && low[i] <= 'Z')
			low[i] = (char)(low[i] + ('a' - 'A'));
	}
	id.p = low;
	return route_id_ok(id);
}

uint16_t
route_port_parse(struct strv s)
{
	uint64_t v;

	if (s.len > 5 || strv_parse_u64(s, 65535, true, &v) != 0)
		return 0;
	return (uint16_t)v;
}

/* --- paths that travel on ---------------------------------------------- */

bool
route_plain_path(struct strv path)
{
	size_t i;

	for (i = 0; i < path.len && path.p[i] != '?'; i++) {
		char c = path.p[i];

		if (c == '%' || c == '\\' || c == ';')
			return false;
		if (c != '/' || i + 1 == path.len)
			continue;
		if (path.p[i + 1] == '/')
			return false;
	}
	path.len = i;
	return route_stays_below(path);
}

/* Reads one character of a segment, %2e and %2E being '.', and so on for the
 * separators; returns how many bytes it took. */
static size_t
lenient_char(const char *p, size_t n, char *out)
{
	static const struct {
		char hex[3];
		char c;
	} odd[] = {{"2e", '.'}, {"2E", '.'}, {"2f", '/'},
		   {"2F", '/'}, {"5c", '/'}, {"5C", '/'}};
	size_t i;

	*out = *p == '\\' ? '/' : *p;
	if (*p != '%' || n < 3)
		return 1;
	for (i = 0; i < ARRAY_LEN(odd); i++) {
		if (memcmp(p + 1, odd[i].hex, 2) == 0) {
			*out = odd[i].c;
			return 3;
		}
	}
	return 1;
}

bool
route_stays_below(struct strv path)
{
	size_t i = 0, dots = 0;
	bool other = false;

	while (i < path.len && path.p[i] != '?') {
		char c;

		i += lenient_char(path.p + i, path.len - i, &c);
		/* "..;x" is ".." to some */
		if (c == '/' || c == ';') {
			if (!other && (dots == 1 || dots == 2))
				return false;
			if (c == ';')
				other = true;
			else
				other = false;
			dots = 0;
		} else if (c == '.') {
			dots++;
		} else {
			other = true;
		}
	}
	return other || (dots != 1 && dots != 2);
}

/* --- forms ------------------------------------------------------------- */

static void
bad(struct route_match *m, const char *why)
{
	m->kind = ROUTE_BAD;
	m->why = why;
}

/* Where the segment that starts at `from` ends. */
static size_t
segment_end(struct strv path, size_t from)
{
	size_t i = from;

	while (i < path.len && path.p[i] != '/' && path.p[i] != '?')
		i++;
	return i;
}

static struct strv
slice(struct strv s, size_t from, size_t to)
{
	s.p += from;
	s.len = to - from;
	return s;
}

/* path[0..at) was `proxy/`; what follows is <port> and the tail. */
static void
match_port(struct route_match *m, struct strv path, size_t at, bool keep)
{
	size_t end = segment_end(path, at);

	m->port = route_port_parse(slice(path, at, end));
	if (m->port == 0) {
		bad(m, "the port must be a decimal number from 1 to 65535");
		return;
	}
	m->kind = ROUTE_PORT;
	m->keep_prefix = keep;
	m->prefix = slice(path, 0, end);
	m->tail = strv_from(path, end);
	m->no_slash = m->tail.len == 0 || m->tail.p[0] != '/';
}

/* path[0..at) was `/v1/` or `/v1/sandboxes/<id>/`: a port, or the agent's. */
static void
match_below(struct route_match *m, struct strv path, size_t at)
{
	size_t end = segment_end(path, at);
	struct strv word = slice(path, at, end);
	bool proxy = strv_eq(word, STRV("proxy"));
	bool keep = strv_eq(word, STRV("absproxy"));

	if (!proxy && !keep) {
		m->kind = ROUTE_AGENT;
		m->tail = path;
	} else if (end == path.len || path.p[end] != '/') {
		bad(m, "a port must follow");
	} else {
		match_port(m, path, end + 1, keep);
	}
}

/* path begins with "/v1" as a whole segment. */
static void
match_v1(struct route_match *m, struct strv path)
{
	const struct strv list = STRV("/v1/sandboxes");
	size_t end;

	if (strv_starts(path, STRV("/v1/")) &&
	    !(strv_starts(path, list) &&
	      segment_end(path, STRV("/v1/").len) == list.len)) {
		match_below(m, path, STRV("/v1/").len);
		return;
	}
	if (path.len <= list.len + 1 || path.p[list.len] != '/' ||
	    path.p[list.len + 1] == '?') {
		m->kind = ROUTE_AGENT; /* the list itself */
		m->tail = path;
		return;
	}
	end = segment_end(path, list.len + 1);
	m->id = slice(path, list.len + 1, end);
	if (!route_id_ok(m->id)) {
		bad(m, "no sandbox can have that id");
	} else if (end == path.len || path.p[end] == '?') {
		m->kind = ROUTE_AGENT;
		m->tail = path;
	} else {
		match_below(m, path, end + 1);
	}
}

/* Splits "<id>--<port>" or the other order. False: it is neither. */
static bool
split_label(const struct gw_conf *conf, struct strv label,
	    bool (*id_ok)(struct strv), struct strv *id, uint16_t *port)
{
	struct strv left, right;
	size_t i;

	for (i = 0; i + 1 < label.len; i++) {
		/* NOLINTNEXTLINE: a length of more than 1 has bytes */
		if (label.p[i] == '-' && label.p[i + 1] == '-')
			break;
	}
	if (i + 1 >= label.len)
		return false;
	left = slice(label, 0, i);
	right = strv_from(label, i + 2);
	if (conf->label_order != LABEL_PORT_ID && id_ok(left) &&
	    (*port = route_port_parse(right)) != 0) {
		*id = left;
		return true;
	}
	if (conf->label_order != LABEL_ID_PORT && id_ok(right) &&
	    (*port = route_port_parse(left)) != 0) {
		*id = right;
		return true;
	}
	return false;
}

/* A label named `id` and the agent's port; path is for that agent. */
static void
match_agent_by_name(struct route_match *m, struct strv path)
{
	struct strv label = m->id;

	m->id = STRV_NULL;
	m->port = 0;
	m->inner = path;
	if (strv_eq(path, STRV("/v1")) || strv_starts(path, STRV("/v1/")) ||
	    strv_starts(path, STRV("/v1?"))) {
		match_v1(m, path);
	} else {
		m->kind = ROUTE_AGENT;
		m->tail = path;
	}
	m->label = label;
}

static void
match_named(struct route_match *m, struct strv prefix, struct strv tail)
{
	m->prefix = prefix;
	if (m->port == ROUTE_AGENT_PORT) {
		match_agent_by_name(m, tail);
		if (m->kind == ROUTE_PORT && prefix.len > 0) {
			m->prefix.len += prefix.len; /* they are adjacent */
			m->prefix.p = prefix.p;
		}
		return;
	}
	m->kind = ROUTE_PORT;
	m->tail = tail;
	m->no_slash = prefix.len > 0 && (tail.len == 0 || tail.p[0] != '/');
}

/* The host name of a Host value; empty for an IPv6 literal. */
static struct strv
host_name(struct strv host)
{
	ptrdiff_t colon = strv_index(host, ':');

	if (host.len == 0 || host.p[0] == '[')
		return STRV_NULL;
	if (colon >= 0)
		host.len = (size_t)colon;
	if (host.len > 0 && host.p[host.len - 1] == '.')
		host.len--;
	return host;
}

/* True when Host decided. */
static bool
match_host(const struct gw_conf *conf, struct strv host, struct strv path,
	   struct route_match *m)
{
	struct strv name = host_name(host), label = name;
	ptrdiff_t dot = strv_index(name, '.');

	if (dot >= 0)
		label.len = (size_t)dot;
	if (conf->domain != NULL) {
		struct strv domain = strv_of(conf->domain);

		if (dot < 0 ||
		    !strv_eq_nocase(strv_from(name, (size_t)dot + 1), domain))
			return false;
	}
	if (split_label(conf, label, host_id_ok, &m->id, &m->port)) {
		m->by_name = true;
		match_named(m, STRV_NULL, path);
		return true;
	}
	if (conf->domain == NULL)
		return false; /* somebody's xn--… name */
	bad(m, "the host name must be <id>--<port>");
	return true;
}

/* "/<id>--<port>/…", "/<id>--<port>.<anything>/…" */
static bool
match_first_segment(const struct gw_conf *conf, struct strv path,
		    struct route_match *m)
{
	size_t end = segment_end(path, 1);
	struct strv label = slice(path, 1, end);
	ptrdiff_t dot = strv_index(label, '.');
	size_t i;

	if (dot >= 0)
		label.len = (size_t)dot;
	if (split_label(conf, label, route_id_ok, &m->id, &m->port)) {
		match_named(m, slice(path, 0, end), strv_from(path, end));
		return true;
	}
	for (i = 0; i + 1 < label.len; i++) {
		if (label.p[i] == '-' && label.p[i + 1] == '-') {
			bad(m, "the first segment must be <id>--<port>");
			return true;
		}
	}
	return false;
}

static bool
is_segment(struct strv path, struct strv word)
{
	return strv_starts(path, word) && segment_end(path, 1) == word.len;
}

static bool
is_coreweave(struct strv path)
{
	return is_segment(path, STRV("/coreweave")) ||
	       is_segment(path, STRV("/" CWSVC_NAME));
}

static void
match_rpc(struct route_match *m)
{
	m->kind = ROUTE_API;
	m->rpc = true;
}

void
route_match(const struct gw_conf *conf, struct strv host, struct strv path,
	    struct route_match *out)
{
	memset(out, 0, sizeof(*out));
	out->kind = ROUTE_NONE;
	if (path.len == 0 || path.p[0] != '/')
		return; /* OPTIONS * */
	if (match_host(conf, host, path, out))
		return;
	if (is_segment(path, STRV("/v1")))
		match_v1(out, path);
	else if (is_segment(path, STRV("/health")))
		out->kind = segment_end(path, 1) == path.len ||
				    path.p[STRV("/health").len] == '?'
				? ROUTE_HEALTH
				: ROUTE_NONE;
	else if (is_segment(path, STRV("/api")) ||
		 is_segment(path, STRV("/buckets")))
		out->kind = ROUTE_API;
	else if (conf->podflare.enabled && is_segment(path, STRV("/podflare")))
		out->kind = ROUTE_API;
	else if (conf->coreweave.enabled && is_coreweave(path))
		match_rpc(out);
	else
		(void)match_first_segment(conf, path, out);
}
