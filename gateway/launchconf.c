/* SPDX-License-Identifier: Apache-2.0 */
/* [local] and [image NAME]; see the header. */
#include "config.h"

#include "gateway/launchconf.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/gwconf_sec.h"
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

int
launchconf_fill(struct gw_conf *c, char **msg)
{
	const struct sec_local *s = conf_section(c->ini, "local");
	const struct conf_at at = {"local", NULL, "outbound"};
	struct gw_launch *l = &c->launch;
	int r;

	l->agent = dup_or_null(s->agent);
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
	return fill_images(c, msg);
}

void
launchconf_clear(struct gw_launch *l)
{
	free(l->agent);
	free(l->outbound);
	for (size_t i = 0; l->expose != NULL && l->expose[i] != NULL; i++)
		free(l->expose[i]);
	free(l->expose);
	for (size_t i = 0; i < l->nimages; i++) {
		free(l->images[i].name);
		free(l->images[i].rootfs);
	}
	free(l->images);
	outside_clear(&l->outside);
	memset(l, 0, sizeof(*l));
}

void
launchconf_dump(const struct gw_launch *l, struct strbuf *b)
{
	if (l->outbound == NULL)
		return; /* no file was read: there are no jobs */
	strbuf_adds(b, "\n[local]\n");
	if (l->agent != NULL)
		strbuf_addf(b, "agent = %s\n", l->agent);
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
