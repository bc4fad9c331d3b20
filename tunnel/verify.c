/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a host key against the pinned fingerprint, or else against all
 * known_hosts files: a revoked key loses, a known one wins over all else.
 */
#include "config.h"

#include "tunnel/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "tunnel/hostkey.h"
#include "tunnel/expand.h"
#include "tunnel/options.h"

#define KNOWN_HOSTS_MAX (8 * 1024 * 1024)

static char *
verify_name(const struct options *o)
{
	if (o->key_alias != NULL)
		return hostkey_name(o->key_alias, 22);
	return hostkey_name(options_host(o), options_port(o));
}

typedef void (*file_cb)(const char *path, struct strv text, void *arg);

static void
each_file(const struct options *o, const struct options_list *l, file_cb cb,
	  void *arg)
{
	char *path, *text;
	size_t len;

	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i], "none") == 0)
			continue;
		path = expand_path(o, l->v[i]);
		if (file_read(path, KNOWN_HOSTS_MAX, &text, &len) == 0) {
			cb(path, (struct strv){text, len}, arg);
			free(text);
		}
		free(path);
	}
}

struct check {
	const char *name;
	const void *key;
	size_t n;
	struct hostkey_found best;
	char *path;
};

/* REVOKED over MATCH over CHANGED over UNKNOWN. */
static int
rank(enum hostkey_verdict v)
{
	switch (v) {
	case HOSTKEY_REVOKED:
		return 3;
	case HOSTKEY_MATCH:
		return 2;
	case HOSTKEY_CHANGED:
		return 1;
	case HOSTKEY_UNKNOWN:
		break;
	}
	return 0;
}

static void
check_file(const char *path, struct strv text, void *arg)
{
	struct check *c = arg;
	struct hostkey_found f;

	hostkey_check(text, c->name, c->key, c->n, &f);
	if (rank(f.verdict) <= rank(c->best.verdict))
		return;
	c->best = f;
	free(c->path);
	c->path = xstrdup(path);
}

struct types {
	const char *name;
	struct strbuf *out;
};

static void
types_file(const char *path, struct strv text, void *arg)
{
	struct types *t = arg;

	(void)path;
	hostkey_types(text, t->name, t->out);
}

void
verify_types(const struct options *o, struct strbuf *out)
{
	char *name = verify_name(o);
	struct types t = {name, out};

	each_file(o, &o->known_hosts, types_file, &t);
	each_file(o, &o->global_known_hosts, types_file, &t);
	free(name);
}

/* Appends a line; that it could not be remembered is no reason to fail. */
static void
remember(const struct options *o, const char *name, const void *key, size_t n,
	 struct strbuf *say)
{
	char *path, *line, *slash;
	int fd;

	if (o->known_hosts.n == 0 || strcmp(o->known_hosts.v[0], "none") == 0)
		return;
	path = expand_path(o, o->known_hosts.v[0]);
	line = hostkey_line(name, key, n);
	if ((slash = strrchr(path, '/')) != NULL && slash != path) {
		*slash = '\0';
		(void)!dir_make(path, 0700);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY,
		  0600);
	if (fd < 0 || fd_write_all(fd, line, strlen(line)) != 0)
		strbuf_addf(say,
			    "Failed to add the host to the list of known "
			    "hosts (%s).",
			    path);
	else if (o->log >= OPT_LOG_INFO)
		strbuf_addf(say,
			    "Warning: Permanently added '%s' to the list of "
			    "known hosts.",
			    name);
	fd_close(&fd);
	free(line);
	free(path);
}

static int
verify_pinned(const struct options *o, const char *print, struct strbuf *say)
{
	if (strcmp(o->fingerprint, print) == 0)
		return 0;
	strbuf_addf(say,
		    "The host key is %s, but %s was expected.\n"
		    "Host key verification failed.",
		    print, o->fingerprint);
	return E_DENIED;
}

static int
verify_unknown(const struct options *o, const struct check *c,
	       const char *print, struct strbuf *say)
{
	if (o->strict == STRICT_NO || o->strict == STRICT_ACCEPT_NEW) {
		remember(o, c->name, c->key, c->n, say);
		return 0;
	}
	strbuf_addf(say,
		    "No %.*s host key is known for %s (it offers %s) and "
		    "strict checking was asked for.\n"
		    "Host key verification failed.",
		    STRV_ARG(hostkey_type(c->key, c->n)), c->name, print);
	return E_DENIED;
}

static int
verify_changed(const struct options *o, const struct check *c,
	       const char *print, struct strbuf *say)
{
	strbuf_addf(say,
		    "REMOTE HOST IDENTIFICATION HAS CHANGED for %s: it is %s, "
		    "but %s is known (%s:%u).",
		    c->name, print, c->best.expected, c->path, c->best.line);
	if (o->strict == STRICT_NO)
		return 0;
	strbuf_adds(say, "\nHost key verification failed.");
	return E_DENIED;
}

static int
verify_known(const struct options *o, struct check *c, const char *print,
	     struct strbuf *say)
{
	each_file(o, &o->known_hosts, check_file, c);
	each_file(o, &o->global_known_hosts, check_file, c);
	switch (c->best.verdict) {
	case HOSTKEY_MATCH:
		return 0;
	case HOSTKEY_UNKNOWN:
		return verify_unknown(o, c, print, say);
	case HOSTKEY_CHANGED:
		return verify_changed(o, c, print, say);
	case HOSTKEY_REVOKED:
		break;
	}
	strbuf_addf(say,
		    "The host key %s of %s is marked as revoked (%s:%u).\n"
		    "Host key verification failed.",
		    print, c->name, c->path, c->best.line);
	return E_DENIED;
}

int
verify_host(const struct options *o, const void *key, size_t n, char **text)
{
	struct check c = {.key = key, .n = n};
	char print[HOSTKEY_PRINT_MAX];
	struct strbuf say = {0};
	char *name = verify_name(o);
	int r;

	c.name = name;
	hostkey_print(key, n, print);
	if (o->fingerprint != NULL)
		r = verify_pinned(o, print, &say);
	else
		r = verify_known(o, &c, print, &say);
	free(name);
	free(c.path);
	*text = say.s != NULL ? strbuf_take(&say) : NULL;
	return r;
}
