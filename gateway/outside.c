/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints outside; see the header. */
#include "config.h"

#include "gateway/outside.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define PORT_LO 20000
#define PORT_HI 60999

/* --- URLs -------------------------------------------------------------- */

static bool
is_host_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

static bool
host_ok(struct strv host, bool v6)
{
	if (host.len == 0 || host.len > 253 || host.p[0] == '-')
		return false;
	for (size_t i = 0; i < host.len; i++) {
		if (v6 ? str_hex_value(host.p[i]) < 0 && host.p[i] != ':' &&
			     host.p[i] != '.'
		       : !is_host_char(host.p[i]))
			return false;
	}
	return true;
}

/* "host", "host:port", "[v6]:port" */
static int
parse_authority(struct strv s, struct outside_url *u, const char **why)
{
	bool v6 = s.len > 0 && s.p[0] == '[';
	ptrdiff_t end = strv_index(s, v6 ? ']' : ':');
	struct strv rest = STRV("");
	uint64_t port;

	*why = "the host is not a name or an address";
	if (strv_index(s, '@') >= 0) {
		*why = "must not hold a user or a password";
		return E_INVALID;
	}
	if (v6 && end < 0)
		return E_INVALID;
	u->host = s;
	if (end >= 0) {
		u->host.len = (size_t)end;
		rest = strv_from(s, (size_t)end + (v6 ? 1 : 0));
	}
	if (v6)
		u->host = strv_from(u->host, 1);
	if (!host_ok(u->host, v6))
		return E_INVALID;
	if (rest.len == 0)
		return 0;
	*why = "the port must be a number from 1 to 65535";
	if (rest.p[0] != ':' ||
	    strv_parse_u64(strv_from(rest, 1), 65535, true, &port) != 0 ||
	    port == 0)
		return E_INVALID;
	u->port = (uint16_t)port;
	return 0;
}

int
outside_parse_url(struct strv text, struct outside_url *out, const char **why)
{
	struct outside_url u = {.port = 80};
	struct strv rest;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] > ' ' && text.p[i] < 127 && text.p[i] != '"' &&
		    text.p[i] != '\\')
			continue;
		*why = "must be visible ASCII without blanks and quotes";
		return E_INVALID;
	}
	if (text.len > 8 &&
	    strv_eq_nocase((struct strv){text.p, 8}, STRV("https://"))) {
		n = 5;
		u.port = 443;
	} else if (text.len > 7 &&
		   strv_eq_nocase((struct strv){text.p, 7}, STRV("http://"))) {
		n = 4;
	} else {
		*why = "must begin with http:// or https://";
		return E_INVALID;
	}
	u.scheme = (struct strv){text.p, n};
	rest = strv_from(text, n + 3);
	for (n = 0; n < rest.len && strchr("/?#", rest.p[n]) == NULL;)
		n++;
	u.rest = strv_from(rest, n);
	if ((r = parse_authority((struct strv){rest.p, n}, &u, why)) == 0)
		*out = u;
	return r;
}

/* --- the list ---------------------------------------------------------- */

static bool
name_ok(struct strv name, const char **why)
{
	*why = "must be \"NAME URL\", NAME of letters, digits and '_'";
	if (name.len == 0 || name.len > 128 ||
	    (name.p[0] >= '0' && name.p[0] <= '9'))
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (!is_host_char(name.p[i]) || name.p[i] == '.' ||
		    name.p[i] == '-')
			return false;
	*why = "names that begin with SBX_ are reserved";
	return !strv_starts(name, STRV("SBX_"));
}

static char *
lower(struct strv s)
{
	char *t = xstrndup(s.p, s.len);

	for (char *p = t; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + ('a' - 'A'));
	return t;
}

/* The forward that leads there; o->nforwards when there is none. */
static size_t
find_forward(const struct outside *o, const struct outside_url *u)
{
	size_t i;

	for (i = 0; i < o->nforwards; i++)
		if (o->forwards[i].port == u->port &&
		    strv_eq_nocase(strv_of(o->forwards[i].host), u->host))
			break;
	return i;
}

int
outside_add(struct outside *o, struct strv text, const char **why)
{
	struct outside_end *e;
	struct outside_url u;
	struct strv rest = strv_trim(text), name;
	int r;

	(void)strv_cut(&rest, ' ', &name);
	rest = strv_trim(rest);
	if (!name_ok(name, why))
		return E_INVALID;
	if ((r = outside_parse_url(rest, &u, why)) != 0)
		return r;
	*why = "that name is there twice";
	for (size_t i = 0; i < o->nends; i++)
		if (strv_eq(strv_of(o->ends[i].name), name))
			return E_INVALID;
	*why = "too many of them";
	if (o->nends == OUTSIDE_MAX)
		return E_LIMIT;
	o->ends = xreallocarray(o->ends, o->nends + 1, sizeof(*o->ends));
	e = &o->ends[o->nends++];
	e->name = xstrndup(name.p, name.len);
	e->url = xstrndup(rest.p, rest.len);
	(void)!outside_parse_url(strv_of(e->url), &e->u, why);
	e->forward = find_forward(o, &e->u);
	if (e->forward < o->nforwards)
		return 0;
	o->forwards =
	    xreallocarray(o->forwards, o->nforwards + 1, sizeof(*o->forwards));
	o->forwards[o->nforwards++] = (struct outside_forward){
	    .host = lower(e->u.host), .port = e->u.port};
	return 0;
}

/* --- ports ------------------------------------------------------------- */

static bool
port_free(const struct outside *o, size_t upto, const uint16_t *taken,
	  size_t ntaken, unsigned port)
{
	for (size_t i = 0; i < ntaken; i++)
		if (taken[i] == port)
			return false;
	for (size_t i = 0; i < upto; i++)
		if (o->forwards[i].far == port)
			return false;
	return true;
}

void
outside_choose(struct outside *o, const uint16_t *taken, size_t ntaken,
	       uint16_t lowest)
{
	for (size_t i = 0; i < o->nforwards; i++) {
		struct outside_forward *f = &o->forwards[i];
		unsigned port = f->port;

		if (port < lowest || !port_free(o, i, taken, ntaken, port))
			for (port = PORT_LO;
			     port <= PORT_HI &&
			     !port_free(o, i, taken, ntaken, port);)
				port++;
		f->far = port <= UINT16_MAX ? (uint16_t)port : 0;
	}
}

static void
far_url(const struct outside_url *u, uint16_t port, struct strbuf *out)
{
	strbuf_addf(out, "%.*s://127.0.0.1:%u%.*s", STRV_ARG(u->scheme), port,
		    STRV_ARG(u->rest));
}

void
outside_far_url(const struct outside *o, const struct outside_end *e,
		struct strbuf *out)
{
	far_url(&e->u, o->forwards[e->forward].far, out);
}

int
outside_resolve(const struct outside *o, struct strv url, struct strbuf *out,
		const char **why)
{
	struct outside_url u;
	size_t i;
	int r;

	if ((r = outside_parse_url(url, &u, why)) != 0)
		return r;
	if ((i = find_forward(o, &u)) == o->nforwards) {
		*why = "no endpoint is configured for that host and port";
		return E_NOTFOUND;
	}
	far_url(&u, o->forwards[i].far, out);
	return 0;
}

void
outside_vars_json(const struct outside *o, bool far, struct strbuf *out)
{
	struct strbuf url = {0};

	strbuf_addc(out, '{');
	for (size_t i = 0; i < o->nends; i++) {
		const struct outside_end *e = &o->ends[i];

		strbuf_reset(&url);
		if (far)
			outside_far_url(o, e, &url);
		else
			strbuf_adds(&url, e->url);
		strbuf_addf(out, "%s\"%s\":", i > 0 ? "," : "", e->name);
		strbuf_add_json(out, (struct strv){url.s, url.len});
	}
	strbuf_addc(out, '}');
	strbuf_clear(&url);
}

void
outside_env_json(const struct outside *o, bool far, struct strbuf *out)
{
	const char *sep = "";

	strbuf_adds(out, "{\"env\":");
	outside_vars_json(o, far, out);
	strbuf_adds(out, ",\"outside\":[");
	for (size_t i = 0; i < o->nforwards; i++) {
		const struct outside_forward *f = &o->forwards[i];
		uint16_t port = far ? f->far : f->port;

		/* The URL is the same in there only for what is on loopback. */
		if (port == 0 || (!far && strcmp(f->host, "localhost") != 0 &&
				  strcmp(f->host, "127.0.0.1") != 0))
			continue;
		strbuf_addf(out, "%s\"%u %s:%u\"", sep, port,
			    far ? "127.0.0.1" : f->host, port);
		sep = ",";
	}
	strbuf_adds(out, "]}");
}

void
outside_copy(struct outside *to, const struct outside *from)
{
	const char *why;

	*to = (struct outside){0};
	to->ends = xcalloc(from->nends + 1, sizeof(*to->ends));
	to->forwards = xcalloc(from->nforwards + 1, sizeof(*to->forwards));
	for (; to->nends < from->nends; to->nends++) {
		struct outside_end *e = &to->ends[to->nends];

		*e = from->ends[to->nends];
		e->name = xstrdup(e->name);
		e->url = xstrdup(e->url);
		(void)!outside_parse_url(strv_of(e->url), &e->u, &why);
	}
	for (; to->nforwards < from->nforwards; to->nforwards++) {
		to->forwards[to->nforwards] = from->forwards[to->nforwards];
		to->forwards[to->nforwards].host =
		    xstrdup(from->forwards[to->nforwards].host);
	}
}

char *
outside_host_port(const struct outside_forward *f)
{
	return xasprintf(strchr(f->host, ':') != NULL ? "[%s]:%u" : "%s:%u",
			 f->host, f->port);
}

void
outside_clear(struct outside *o)
{
	for (size_t i = 0; i < o->nends; i++) {
		free(o->ends[i].name);
		free(o->ends[i].url);
	}
	for (size_t i = 0; i < o->nforwards; i++)
		free(o->forwards[i].host);
	free(o->ends);
	free(o->forwards);
	memset(o, 0, sizeof(*o));
}
