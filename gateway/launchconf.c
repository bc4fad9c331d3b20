/* SPDX-License-Identifier: Apache-2.0 */
/* [local] and [image NAME]; see the header. */
#include "config.h"

#include "gateway/launchconf.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/gwconf_sec.h"
#include "gateway/template.h"
#include "net/addr.h"

static char *
dup_or_null(const char *s)
{
	return s != NULL && *s != '\0' ? xstrdup(s) : NULL;
}

static int
fill_expose(struct gw_conf *c, const struct sec_local *s, char **msg)
{
	const struct conf_at at = {"local", NULL, "expose"};

	c->launch.expose = xcalloc(s->expose.n + 1, sizeof(char *));
	for (size_t i = 0; i < s->expose.n; i++) {
		if (*s->expose.v[i] != '/' ||
		    strstr(s->expose.v[i], "..") != NULL)
			return gwconf_bad(c, msg, &at,
					  "%s: an absolute path without .. "
					  "is wanted",
					  s->expose.v[i]);
		c->launch.expose[i] = xstrdup(s->expose.v[i]);
	}
	return 0;
}

static int
fill_images(struct gw_conf *c, char **msg)
{
	struct gw_launch *l = &c->launch;
	const struct sec_image *s;
	const char *name;

	for (size_t i = 0; (s = conf_named(c->ini, "image", i, &name)) != NULL;
	     i++) {
		const struct conf_at at = {"image", name, "rootfs"};

		if (s->rootfs == NULL || *s->rootfs != '/')
			return gwconf_bad(c, msg, &at,
					  "an absolute path is wanted");
		l->images = xreallocarray(l->images, l->nimages + 1,
					  sizeof(*l->images));
		l->images[l->nimages].name = xstrdup(name);
		l->images[l->nimages++].rootfs = xstrdup(s->rootfs);
	}
	return 0;
}

/* With a network of its own a job has them on its loopback, away from the
 * ports that servers in it like to use; else where they are. */
static int
fill_outside(struct gw_conf *c, const struct sec_local *s, char **msg)
{
	const struct conf_at at = {"local", NULL, "outside"};
	struct outside *o = &c->launch.outside;
	struct addr a;
	const char *why;
	char *text;
	int r = 0;

	for (size_t i = 0; i < s->outside.n; i++)
		if (outside_add(o, strv_of(s->outside.v[i]), &why) != 0)
			return gwconf_bad(c, msg, &at, "%s: %s",
					  s->outside.v[i], why);
	outside_choose(o, NULL, 0, UINT16_MAX);
	for (size_t i = 0; !c->launch.net_host && i < o->nforwards; i++) {
		text = outside_host_port(&o->forwards[i]);
		if (strcmp(o->forwards[i].host, "localhost") != 0 &&
		    addr_parse(strv_of(text), &a) != 0)
			r = gwconf_bad(c, msg, &at,
				       "%s: must be localhost or an address",
				       o->forwards[i].host);
		free(text);
		if (r != 0)
			return r;
	}
	return 0;
}

/* --- [launcher NAME] --------------------------------------------------- */

/* Are there words, and no names but known ones? */
static int
check_line(struct gw_conf *c, const struct conf_at *at, const char *line,
	   bool starts, char **msg)
{
	static const char *const names[] = {
	    "id",       "dir",    "grace",  "mode",      "image", "flavor",
	    "env_file", "env_sh", "memory", "cpu_milli", "pids",  "timeout"};
	struct template_var v[ARRAY_LEN(names) + 1];
	char **argv = NULL, *why = NULL;
	size_t n = starts ? ARRAY_LEN(names) : 3;
	int r;

	for (size_t i = 0; i < n; i++)
		v[i] = (struct template_var){.name = names[i], .value = "x"};
	if (starts)
		v[n++] = (struct template_var){.name = "argv"};
	if (line == NULL)
		return gwconf_bad(c, msg, at, "is missing");
	if ((r = template_expand(line, v, n, &argv, &why)) != 0)
		r = gwconf_bad(c, msg, at, "%s", why);
	template_free(argv);
	free(why);
	return r;
}

static int
fill_addresses(struct gw_conf *c, const char *name,
	       const struct sec_launcher *s, struct gw_launcher *l, char **msg)
{
	const struct conf_at at = {"launcher", name, "addresses"};

	l->addresses = xcalloc(s->addresses.n + 1, sizeof(*l->addresses));
	for (size_t i = 0; i < s->addresses.n; i++)
		if (addr_net_parse(strv_of(s->addresses.v[i]),
				   &l->addresses[l->naddresses++]) != 0)
			return gwconf_bad(c, msg, &at,
					  "%s: not an address or network",
					  s->addresses.v[i]);
	return 0;
}

static int
fill_launcher(struct gw_conf *c, const char *name, const struct sec_launcher *s,
	      struct gw_launcher *l, char **msg)
{
	const struct {
		const char *key, *line;
		bool starts, wanted;
	} lines[] = {{"start", s->start, true, true},
		     {"status", s->status, false, true},
		     {"stop", s->stop, false, true},
		     {"remove", s->remove, false, false},
		     {"agent", s->agent, false, false}};
	int r = 0;

	l->name = xstrdup(name);
	l->start = dup_or_null(s->start);
	l->status = dup_or_null(s->status);
	l->stop = dup_or_null(s->stop);
	l->remove = dup_or_null(s->remove);
	l->agent = dup_or_null(s->agent);
	l->register_url = dup_or_null(s->register_url);
	l->timeout_ms = s->timeout_ms;
	l->poll_ms = s->poll_ms;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(lines); i++) {
		const struct conf_at at = {"launcher", name, lines[i].key};

		if (lines[i].wanted || lines[i].line != NULL)
			r = check_line(c, &at, lines[i].line, lines[i].starts,
				       msg);
	}
	return r != 0 ? r : fill_addresses(c, name, s, l, msg);
}

static int
fill_launchers(struct gw_conf *c, char **msg)
{
	struct gw_launch *l = &c->launch;
	const struct sec_launcher *s;
	const char *name;
	int r = 0;

	for (size_t i = 0;
	     r == 0 && (s = conf_named(c->ini, "launcher", i, &name)) != NULL;
	     i++) {
		l->launchers = xreallocarray(l->launchers, l->nlaunchers + 1,
					     sizeof(*l->launchers));
		memset(&l->launchers[l->nlaunchers], 0, sizeof(*l->launchers));
		r = fill_launcher(c, name, s, &l->launchers[l->nlaunchers++],
				  msg);
	}
	return r;
}

static void
clear_launcher(struct gw_launcher *l)
{
	free(l->name);
	free(l->start);
	free(l->status);
	free(l->stop);
	free(l->remove);
	free(l->agent);
	free(l->register_url);
	free(l->addresses);
}

/* As it was written: what base/conf has is what addresses were made from. */
static void
dump_launcher(const struct conf *ini, const struct gw_launcher *l,
	      struct strbuf *b)
{
	const struct {
		const char *key, *value;
	} texts[] = {{"start", l->start}, {"status", l->status},
		     {"stop", l->stop},   {"remove", l->remove},
		     {"agent", l->agent}, {"register_url", l->register_url}};
	const struct sec_launcher *s;
	const char *name;

	strbuf_addf(b, "\n[launcher %s]\n", l->name);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i].value != NULL)
			strbuf_addf(b, "%s = %s\n", texts[i].key,
				    texts[i].value);
	strbuf_addf(b, "timeout = %llums\npoll = %llums\n",
		    (unsigned long long)l->timeout_ms,
		    (unsigned long long)l->poll_ms);
	for (size_t i = 0; (s = conf_named(ini, "launcher", i, &name)) != NULL;
	     i++)
		for (size_t k = 0;
		     strcmp(name, l->name) == 0 && k < s->addresses.n; k++)
			strbuf_addf(b, "addresses = %s\n", s->addresses.v[k]);
}

const struct gw_launcher *
launchconf_launcher(const struct gw_launch *l, const char *name)
{
	for (size_t i = 0; i < l->nlaunchers; i++)
		if (strcmp(l->launchers[i].name, name) == 0)
			return &l->launchers[i];
	return NULL;
}

int
launchconf_fill(struct gw_conf *c, char **msg)
{
	const struct sec_local *s = conf_section(c->ini, "local");
	const struct conf_at at = {"local", NULL, "outbound"};
	struct gw_launch *l = &c->launch;
	int r;

	l->agent = dup_or_null(s->agent);
	l->cgroup = dup_or_null(s->cgroup);
	l->net_host = s->network == 1;
	l->best_effort = s->isolation == 1;
	l->uid_base = s->uid_base;
	l->uid_jobs = s->uid_jobs;
	l->parallel = s->parallel;
	l->outbound = xstrdup(s->outbound != NULL ? s->outbound : "none");
	if (strcmp(l->outbound, "auto") != 0 &&
	    strcmp(l->outbound, "none") != 0 && *l->outbound != '/')
		return gwconf_bad(c, msg, &at,
				  "auto, none or an absolute path is wanted");
	if ((r = fill_expose(c, s, msg)) != 0 ||
	    (r = fill_outside(c, s, msg)) != 0)
		return r;
	if ((r = fill_images(c, msg)) != 0)
		return r;
	return fill_launchers(c, msg);
}

void
launchconf_clear(struct gw_launch *l)
{
	free(l->agent);
	free(l->outbound);
	free(l->cgroup);
	for (size_t i = 0; l->expose != NULL && l->expose[i] != NULL; i++)
		free(l->expose[i]);
	free(l->expose);
	for (size_t i = 0; i < l->nimages; i++) {
		free(l->images[i].name);
		free(l->images[i].rootfs);
	}
	free(l->images);
	for (size_t i = 0; i < l->nlaunchers; i++)
		clear_launcher(&l->launchers[i]);
	free(l->launchers);
	outside_clear(&l->outside);
	memset(l, 0, sizeof(*l));
}

void
launchconf_dump(const struct gw_conf *c, struct strbuf *b)
{
	const struct gw_launch *l = &c->launch;

	if (l->outbound == NULL)
		return; /* no file was read: there are no jobs */
	strbuf_adds(b, "\n[local]\n");
	if (l->agent != NULL)
		strbuf_addf(b, "agent = %s\n", l->agent);
	if (l->cgroup != NULL)
		strbuf_addf(b, "cgroup = %s\n", l->cgroup);
	strbuf_addf(b, "network = %s\noutbound = %s\nisolation = %s\n",
		    l->net_host ? "host" : "private", l->outbound,
		    l->best_effort ? "best-effort" : "required");
	for (size_t i = 0; l->expose[i] != NULL; i++)
		strbuf_addf(b, "expose = %s\n", l->expose[i]);
	gwconf_dump_outside(&l->outside, b);
	strbuf_addf(b, "uid_base = %llu\nuid_jobs = %llu\nparallel = %llu\n",
		    (unsigned long long)l->uid_base,
		    (unsigned long long)l->uid_jobs,
		    (unsigned long long)l->parallel);
	for (size_t i = 0; i < l->nimages; i++)
		strbuf_addf(b, "\n[image %s]\nrootfs = %s\n", l->images[i].name,
			    l->images[i].rootfs);
	for (size_t i = 0; i < l->nlaunchers; i++)
		dump_launcher(c->ini, &l->launchers[i], b);
}

const char *
launchconf_rootfs(const struct gw_launch *l, const char *image)
{
	const char *any = NULL;

	for (size_t i = 0; image != NULL && i < l->nimages; i++) {
		if (strcmp(l->images[i].name, image) == 0)
			return l->images[i].rootfs;
		if (strcmp(l->images[i].name, "*") == 0)
			any = l->images[i].rootfs;
	}
	return any;
}
