/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of the listeners. */
#include "config.h"

#include "gateway/certs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/gwconf_sec.h"
#include "net/tlsctx.h"

#define NAMES_MAX 64

static char *
self_path(const struct gw_conf *conf, const char *what)
{
	return xasprintf("%s/tls.%s", conf->state_dir, what);
}

static bool
needs_self_signed(const struct gw_conf *conf)
{
	for (size_t i = 0; i < conf->nlistens; i++)
		if (conf->listens[i].tls && conf->listens[i].cert == NULL)
			return true;
	return false;
}

struct names {
	struct strv v[NAMES_MAX];
	char *owned[NAMES_MAX];
	size_t n;
};

static void
add_name(struct names *ns, char *name)
{
	bool twice = name[0] == '\0' || ns->n == NAMES_MAX;

	for (size_t i = 0; i < ns->n; i++)
		twice = twice || strcmp(ns->owned[i], name) == 0;
	if (twice) {
		free(name);
		return;
	}
	ns->owned[ns->n] = name;
	ns->v[ns->n++] = strv_of(name);
}

static void
collect_names(const struct gw_conf *conf, struct names *ns)
{
	char host[256] = "", buf[ADDR_TEXT_MAX];

	add_name(ns, xstrdup("localhost"));
	if (gethostname(host, sizeof(host) - 1) == 0)
		add_name(ns, xstrdup(host));
	if (conf->domain != NULL) {
		add_name(ns, xstrdup(conf->domain));
		add_name(ns, xasprintf("*.%s", conf->domain));
	}
	add_name(ns, xstrdup("127.0.0.1"));
	add_name(ns, xstrdup("::1"));
	for (size_t i = 0; i < conf->nlistens; i++) {
		const struct addr *a = &conf->listens[i].addr;

		if (addr_is_unix(a))
			continue;
		(void)addr_ip_text(a, buf);
		if (strcmp(buf, "0.0.0.0") != 0 && strcmp(buf, "::") != 0)
			add_name(ns, xstrdup(buf));
	}
}

int
certs_ensure(const struct gw_conf *conf, bool *made, char **msg)
{
	char *crt, *key;
	struct names ns = {0};
	int r = 0;

	if (made != NULL)
		*made = false;
	if (!needs_self_signed(conf))
		return 0;
	crt = self_path(conf, "crt");
	key = self_path(conf, "key");
	if (access(crt, F_OK) != 0 || access(key, F_OK) != 0) {
		/* One without the other is of no use. */
		(void)unlink(crt);
		(void)unlink(key);
		collect_names(conf, &ns);
		r = tlsctx_self_signed(crt, key, ns.v, ns.n, msg);
		if (made != NULL)
			*made = r == 0;
	}
	while (ns.n > 0)
		free(ns.owned[--ns.n]);
	free(crt);
	free(key);
	return r;
}

int
certs_load(const struct gw_conf *conf, const struct gw_listen *l,
	   struct tlsctx **out, char **msg)
{
	struct tls_cert *v = xcalloc(conf->ncerts + 1, sizeof(*v));
	char *crt = self_path(conf, "crt"), *key = self_path(conf, "key");
	struct tlsctx_options o = {.certs = v,
				   .ncerts = conf->ncerts + 1,
				   .tls12 = conf->tls12,
				   .tickets = 1};
	int r;

	v[0].cert = l->cert != NULL ? l->cert : crt;
	v[0].key = l->cert != NULL ? l->key : key;
	for (size_t i = 0; i < conf->ncerts; i++) {
		v[i + 1].cert = conf->certs[i].cert;
		v[i + 1].key = conf->certs[i].key;
	}
	r = tlsctx_server(&o, out, msg);
	free(v);
	free(crt);
	free(key);
	return r;
}

/* Where in the configuration the file stands that the reason names. */
static void
locate(const struct gw_conf *conf, const struct gw_listen *l, char **msg)
{
	struct conf_at at = {"listen", NULL, "cert"};
	const struct sec_listen *s;
	const struct sec_cert *ct;
	const char *name;
	char *why = *msg;

	for (size_t i = 0;
	     (s = conf_named(conf->ini, "listen", i, &name)) != NULL; i++)
		if (s->address != NULL && strcmp(s->address, l->text) == 0) {
			at.name = name;
			if (s->key != NULL && strstr(why, s->key) != NULL)
				at.key = "key";
		}
	for (size_t i = 0;
	     (ct = conf_named(conf->ini, "certificate", i, &name)) != NULL; i++)
		if ((ct->cert != NULL && strstr(why, ct->cert) != NULL) ||
		    (ct->key != NULL && strstr(why, ct->key) != NULL))
			at = (struct conf_at){"certificate", name, "cert"};
	(void)gwconf_bad(conf, msg, &at, "%s", why);
	free(why);
}

int
certs_check(const struct gw_conf *conf, char **msg)
{
	char *crt = self_path(conf, "crt");
	int r = 0;

	for (size_t i = 0; r == 0 && i < conf->nlistens; i++) {
		const struct gw_listen *l = &conf->listens[i];
		struct tlsctx *t = NULL;

		if (!l->tls || (l->cert == NULL && access(crt, F_OK) != 0))
			continue;
		if ((r = certs_load(conf, l, &t, msg)) != 0)
			locate(conf, l, msg);
		else
			tlsctx_unref(t);
	}
	free(crt);
	return r;
}

void
certs_each_file(const struct gw_conf *conf,
		void (*fn)(const char *path, void *arg), void *arg)
{
	char *crt = self_path(conf, "crt"), *key = self_path(conf, "key");

	if (needs_self_signed(conf)) {
		fn(crt, arg);
		fn(key, arg);
	}
	for (size_t i = 0; i < conf->nlistens; i++) {
		if (conf->listens[i].cert != NULL)
			fn(conf->listens[i].cert, arg);
		if (conf->listens[i].key != NULL)
			fn(conf->listens[i].key, arg);
	}
	for (size_t i = 0; i < conf->ncerts; i++) {
		fn(conf->certs[i].cert, arg);
		if (conf->certs[i].key != NULL)
			fn(conf->certs[i].key, arg);
	}
	free(crt);
	free(key);
}
