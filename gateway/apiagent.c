/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending the agent's file. It is opened for each request, so an installed
 * upgrade is what the next one gets; one under way keeps what it began with.
 */
#include "config.h"

#include "gateway/apiagent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/api.h"
#include "gateway/apifile.h"

#define ROUTE_PATH "/buckets/huggingface/sbx-server/resolve/sbx-server"

/* --- the file ---------------------------------------------------------- */

static char *
beside_us(void)
{
	char self[4096], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	if ((slash = strrchr(self, '/')) == NULL)
		return NULL;
	*slash = '\0';
	return xasprintf("%s/sbx-agent-static", self);
}

/* A regular file, or -1. */
static int
open_file(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)))
		fd_close(&fd);
	return fd;
}

static int
open_agent(const struct apiagent *o, struct stat *st)
{
	const char *path = o->path(o->arg);
	char *ours;
	int fd = -1;

	if (path != NULL) {
		if ((fd = open_file(path, st)) < 0)
			log_warn("api.agent", "path=%s error=\"%s\"", path,
				 strerror(errno));
		return fd;
	}
	if ((ours = beside_us()) != NULL)
		fd = open_file(ours, st);
	free(ours);
	return fd >= 0 ? fd : open_file(PKGLIBEXECDIR "/sbx-agent-static", st);
}

/* --- sending ----------------------------------------------------------- */

static void
send_file(struct api_req *r, int fd, const struct stat *st, const char *etag)
{
	struct apifile *f = apifile_new(r, fd, NULL, NULL);
	uint64_t len = (uint64_t)st->st_size;
	struct http_writer *w;

	w = httpd_begin(r->rq, 200, STRV("OK"), BODY_LENGTH, len, 512);
	http1_put(w, STRV("Content-Type"), STRV("application/octet-stream"));
	http1_put(w, STRV("Cache-Control"), STRV("no-cache"));
	http1_put(w, STRV("ETag"), strv_of(etag));
	if (httpd_end_head(r->rq) != 0) {
		api_error(r, 500, "internal", "the head is too long");
		return;
	}
	apifile_send(f, 0, len);
}

static void
not_modified(struct api_req *r, const char *etag)
{
	char extra[128];

	(void)snprintf(extra, sizeof(extra), "ETag: %s\r\n", etag);
	httpd_respond(r->rq, 304, NULL, strv_of(extra), STRV_NULL);
}

static void
agent_get(struct api_req *r)
{
	struct strv known = http1_find(r->head, STRV("If-None-Match"));
	struct stat st;
	char etag[64];
	int fd;

	if ((fd = open_agent(r->arg, &st)) < 0) {
		api_error(r, 503, "no_agent",
			  "this gateway has no static agent to give away; "
			  "build sbx-agent-static, or name one as static_agent "
			  "in [gateway]");
		return;
	}
	(void)snprintf(etag, sizeof(etag), "\"%llx-%llx-%llx\"",
		       (unsigned long long)st.st_ino,
		       (unsigned long long)st.st_mtim.tv_sec * 1000000000ULL +
			   (unsigned long long)st.st_mtim.tv_nsec,
		       (unsigned long long)st.st_size);
	if (known.p != NULL && strv_eq(known, strv_of(etag))) {
		fd_close(&fd);
		not_modified(r, etag);
		return;
	}
	send_file(r, fd, &st, etag);
}

void
apiagent_add(struct api *a, struct apiagent *o)
{
	(void)api_route_public(a, "GET", ROUTE_PATH, agent_get, o);
}
