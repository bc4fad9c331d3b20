/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket files are what their names say; TCP ports are read from /proc/net/tcp
 * and tcp6, of our own network namespace, which is where we would connect.
 */
#include "config.h"

#include "gateway/portlist.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/gwconf.h"
#include "gateway/route.h"

#define STATE_LISTEN 10
#define LOOK_MAX     4096 /* entries of a directory, lines of a table */

struct list {
	uint16_t *v;
	size_t n, max;
};

static void
add(struct list *l, uint16_t port)
{
	size_t at = 0;

	while (at < l->n && l->v[at] < port)
		at++;
	if (port == 0 || l->n == l->max || (at < l->n && l->v[at] == port))
		return;
	memmove(&l->v[at + 1], &l->v[at], (l->n - at) * sizeof(*l->v));
	l->v[at] = port;
	l->n++;
}

static void
add_files(struct list *l, const char *path)
{
	const struct strv end = STRV(".sock");
	DIR *d = opendir(path);
	const struct dirent *e;
	unsigned looked = 0;

	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL && looked++ < LOOK_MAX) {
		struct strv name = strv_of(e->d_name);

		if (!strv_ends(name, end))
			continue;
		name.len -= end.len;
		add(l, route_port_parse(name));
	}
	(void)closedir(d);
}

/* One of 0.0.0.0, 127.…, ::, ::1, in the kernel's spelling. */
static bool
is_reached(const char *addr)
{
	static const char *const same[] = {"00000000",
					   "00000000000000000000000000000000",
					   "00000000000000000000000001000000"};

	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		if (strcmp(addr, same[i]) == 0)
			return true;
	return strlen(addr) == 8 && strcmp(addr + 6, "7F") == 0;
}

static void
add_tcp(struct list *l, const struct gw_sandbox_conf *conf, const char *path)
{
	char line[256], addr[33];
	unsigned port, state, looked = 0;
	FILE *f = fopen(path, "re");

	if (f == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL && looked++ < LOOK_MAX) {
		/* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
		if (sscanf(line, " %*u: %32[0-9A-F]:%4x %*[0-9A-F]:%*x %2x",
			   addr, &port, &state) != 3)
			continue;
		if (state == STATE_LISTEN && is_reached(addr) &&
		    gwconf_port_allowed(conf, (uint16_t)port))
			add(l, (uint16_t)port);
	}
	(void)fclose(f);
}

size_t
portlist_conf(const struct gw_sandbox_conf *conf, uint16_t *out, size_t max)
{
	struct list l = {out, 0, max};

	if (conf->proxy_dir != NULL)
		add_files(&l, conf->proxy_dir);
	if (conf->ntcp > 0) {
		add_tcp(&l, conf, "/proc/net/tcp");
		add_tcp(&l, conf, "/proc/net/tcp6");
	}
	return l.n;
}
