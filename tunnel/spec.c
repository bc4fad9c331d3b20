/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward specifications: up to four fields between colons, where brackets
 * and backslashes protect colons; which of the fields are paths decides what
 * the others are.
 */
#include "config.h"

#include "tunnel/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define SPEC_FIELDS   4
#define SPEC_TEXT_MAX 1024
#define SPEC_PATH_MAX 107 /* of sockaddr_un, without the NUL */
#define SPEC_HOST_MAX 255

struct field {
	char *s;
	bool path;
};

static void
fields_clear(struct field *f)
{
	for (size_t i = 0; i < SPEC_FIELDS; i++) {
		free(f[i].s);
		f[i].s = NULL;
	}
}

/* One field from *p on; *p ends on its colon or at the end. */
static int
field_next(const char **p, struct field *f, const char **why)
{
	struct strbuf b = {0};
	const char *s = *p;
	bool bracket = *s == '[';

	f->path = *s == '/';
	if (bracket)
		s++;
	for (; *s != '\0'; s++) {
		if (bracket && *s == ']')
			break;
		if (!bracket && *s == ':')
			break;
		if (f->path && *s == '\\' && (s[1] == ':' || s[1] == '\\'))
			s++;
		strbuf_addc(&b, *s);
	}
	strbuf_add(&b, "", 0);
	f->s = b.s != NULL ? strbuf_take(&b) : xstrdup("");
	if (bracket) {
		if (*s != ']' || (s[1] != ':' && s[1] != '\0') || *f->s == 0) {
			*why = "bad brackets";
			return E_INVALID;
		}
		s++;
	}
	*p = s;
	return 0;
}

static int
fields_split(const char *text, struct field *f, size_t *n, const char **why)
{
	int r;

	for (*n = 0;;) {
		if (*n == SPEC_FIELDS) {
			*why = "too many colons";
			return E_INVALID;
		}
		if ((r = field_next(&text, &f[(*n)++], why)) != 0)
			return r;
		if (*text == '\0')
			return 0;
		text++; /* the colon */
	}
}

static int
take_port(const struct field *f, bool listening, uint16_t *port,
	  const char **why)
{
	uint64_t v;

	if (f->path || strv_parse_u64(strv_of(f->s), 65535, false, &v) != 0 ||
	    (v == 0 && !listening)) {
		*why = "bad port";
		return E_INVALID;
	}
	*port = (uint16_t)v;
	return 0;
}

static int
take_path(struct field *f, char **path, const char **why)
{
	if (strlen(f->s) > SPEC_PATH_MAX || f->s[1] == '\0') {
		*why = "bad socket path";
		return E_INVALID;
	}
	*path = f->s;
	f->s = NULL;
	return 0;
}

static int
take_host(struct field *f, bool listening, char **host, const char **why)
{
	size_t n = strlen(f->s);

	if (f->path || n > SPEC_HOST_MAX || (n == 0 && !listening) ||
	    strpbrk(f->s, " \t\r\n/@") != NULL) {
		*why = "bad host";
		return E_INVALID;
	}
	*host = f->s;
	f->s = NULL;
	return 0;
}

/* The listening end: what is left of the fields of the target. */
static int
spec_listen(struct spec *sp, struct field *f, size_t n, const char **why)
{
	int r;

	if (n == 1 && f[0].path)
		return take_path(&f[0], &sp->listen.path, why);
	if (n == 1)
		return take_port(&f[0], true, &sp->listen.port, why);
	if (n == 2) {
		if ((r = take_host(&f[0], true, &sp->listen.host, why)) != 0)
			return r;
		return take_port(&f[1], true, &sp->listen.port, why);
	}
	*why = "which address, which port?";
	return E_INVALID;
}

static int
spec_fill(struct spec *sp, struct field *f, size_t n, const char **why)
{
	int r;

	if (n == 1 || (n == 2 && !f[1].path)) {
		*why = "dynamic forwarding (SOCKS) is not done";
		return E_UNSUPPORTED;
	}
	if (f[n - 1].path) {
		if ((r = take_path(&f[n - 1], &sp->target.path, why)) != 0)
			return r;
		return spec_listen(sp, f, n - 1, why);
	}
	if ((r = take_host(&f[n - 2], false, &sp->target.host, why)) != 0 ||
	    (r = take_port(&f[n - 1], false, &sp->target.port, why)) != 0)
		return r;
	return spec_listen(sp, f, n - 2, why);
}

int
spec_parse(enum spec_kind kind, const char *text, struct spec **out,
	   const char **why)
{
	struct field f[SPEC_FIELDS] = {{NULL, false}};
	struct spec *sp = NULL;
	size_t n = 0;
	int r;

	if (strlen(text) > SPEC_TEXT_MAX) {
		*why = "too long";
		return E_INVALID;
	}
	if ((r = fields_split(text, f, &n, why)) != 0)
		goto out;
	sp = xcalloc(1, sizeof(*sp));
	sp->kind = kind;
	sp->text = xstrdup(text);
	if ((r = spec_fill(sp, f, n, why)) != 0)
		goto out;
	*out = sp;
	sp = NULL;
out:
	spec_free(sp);
	fields_clear(f);
	return r;
}

void
spec_free(struct spec *sp)
{
	if (sp == NULL)
		return;
	free(sp->listen.path);
	free(sp->listen.host);
	free(sp->target.path);
	free(sp->target.host);
	free(sp->text);
	free(sp);
}

void
spec_end_text(const struct spec_end *e, struct strbuf *out)
{
	const char *host = e->host != NULL ? e->host : "localhost";

	if (e->path != NULL)
		strbuf_adds(out, e->path);
	else if (strchr(host, ':') != NULL)
		strbuf_addf(out, "[%s]:%u", host, e->port);
	else
		strbuf_addf(out, "%s:%u", host, e->port);
}
