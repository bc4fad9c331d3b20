/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane's server and router. A request is matched on the bytes of
 * its path, segment by segment, before anything is percent-decoded.
 */
#include "config.h"

#include "gateway/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/api_int.h"
#include "gateway/errpage.h"
#include "net/addr.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"

#define MINUTE_MS 60000
#define DAY_MS    (24ULL * 60 * MINUTE_MS)

struct api_entry {
	const char *method, *pattern;
	api_handler *fn;
	void *arg;
	bool open; /* for nobody, too */
};

struct api {
	struct loop *loop;
	struct httpd *httpd;
	struct listener *ls;
	char *path;
	uid_t workers;
	struct log_gate gate;
	struct api_entry *v;
	size_t n;
};

/* --- matching ---------------------------------------------------------- */

/* The next segment of a path that begins with '/'. */
static bool
next_segment(struct strv *rest, struct strv *out)
{
	if (rest->len == 0 || rest->p[0] != '/')
		return false;
	*rest = strv_from(*rest, 1);
	*out = *rest;
	for (size_t i = 0; i < rest->len; i++) {
		if (rest->p[i] == '/') {
			out->len = i;
			break;
		}
	}
	*rest = strv_from(*rest, out->len);
	return true;
}

/* How well path fits: 0 is not at all; literal segments count more the further
 * in front they are. */
static unsigned
fits(const char *pattern, struct strv path)
{
	struct strv want = strv_of(pattern), a, b;
	unsigned score = 1;

	while (next_segment(&want, &a)) {
		if (!next_segment(&path, &b) || b.len == 0)
			return 0;
		if (a.p[0] == ':')
			score = score * 2;
		else if (strv_eq(a, b))
			score = score * 2 + 1;
		else
			return 0;
	}
	return path.len == 0 ? score : 0;
}

static bool
method_fits(const char *method, struct strv asked)
{
	return strv_eq(asked, strv_of(method)) ||
	       (strv_eq(asked, STRV("HEAD")) && strcmp(method, "GET") == 0);
}

/* The best of those with that path; NULL: none has that method. *known: the
 * path is one of ours. */
static const struct api_entry *
find(const struct api *a, struct strv method, struct strv path, bool *known)
{
	const struct api_entry *best = NULL;
	unsigned score, top = 0;

	*known = false;
	for (size_t i = 0; i < a->n; i++) {
		if ((score = fits(a->v[i].pattern, path)) == 0)
			continue;
		*known = true;
		if (score > top && method_fits(a->v[i].method, method)) {
			best = &a->v[i];
			top = score;
		}
	}
	return best;
}

static int
take_params(struct api_req *r, const char *pattern)
{
	struct strv want = strv_of(pattern), path = r->path, a, b;
	int e;

	while (next_segment(&want, &a) && next_segment(&path, &b)) {
		if (a.p[0] != ':')
			continue;
		e = api_decode(r->rq, b, false, &r->param[r->nparams]);
		if (e != 0)
			return e;
		r->nparams++;
	}
	return 0;
}

/* --- requests ---------------------------------------------------------- */

static void
refuse_method(struct api_req *r)
{
	const struct api *a = r->api;
	struct strbuf b = {0}, allow = {0};

	strbuf_adds(&allow, "Allow: ");
	for (size_t i = 0, n = 0; i < a->n; i++) {
		if (fits(a->v[i].pattern, r->path) == 0)
			continue;
		strbuf_addf(&allow, "%s%s", n++ > 0 ? ", " : "",
			    a->v[i].method);
	}
	strbuf_adds(&allow, "\r\n");
	strbuf_adds(&b, "{\"error\":\"this path has other methods\","
			"\"code\":\"bad_method\"}\n");
	api_reply_json(r, 405, &b, allow.s);
	strbuf_clear(&allow);
	strbuf_clear(&b);
}

static void
request_cb(struct httpd_req *rq, void *arg)
{
	struct api *a = arg;
	struct api_req *r = httpd_alloc(rq, sizeof(*r));
	const struct api_entry *e;
	bool known;

	memset(r, 0, sizeof(*r));
	r->api = a;
	r->rq = rq;
	r->head = httpd_head(rq);
	r->query = http1_path(r->head);
	(void)strv_cut(&r->query, '?', &r->path);
	e = find(a, http1_method(r->head), r->path, &known);
	if (apiwho_parse(r->head, &r->who) != 0) {
		api_error(r, 400, "bad_request", "bad identity fields");
	} else if (r->who.role == API_NOBODY && (e == NULL || !e->open)) {
		api_error(r, 401, "unauthorized",
			  "missing or wrong credential");
	} else if (!known) {
		api_error(r, 404, "not_found", "there is no %s here",
			  log_esc(r->path));
	} else if (e == NULL) {
		refuse_method(r);
	} else if (take_params(r, e->pattern) != 0) {
		api_error(r, 400, "bad_request",
			  "the path is not properly percent-encoded");
	} else {
		r->arg = e->arg;
		e->fn(r);
	}
}

static bool
refused_cb(struct httpd_conn *c, unsigned status, const char *what, void *arg)
{
	(void)arg;
	errpage_refuse(c, status, what);
	return true;
}

/* --- connections ------------------------------------------------------- */

static bool
may_connect(struct api *a, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	unsigned held;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	    (cred.uid == 0 || cred.uid == geteuid() || cred.uid == a->workers))
		return true;
	if (log_gate_pass(&a->gate, 1, &held))
		log_warn("api.peer", "uid=%ld action=refuse more=%u",
			 (long)cred.uid, held);
	return false;
}

static void
accepted_cb(int fd, const struct addr *peer, void *arg)
{
	struct api *a = arg;

	if (!may_connect(a, fd)) {
		(void)close(fd);
		return;
	}
	(void)httpd_serve(a->httpd, stream_take_fd(a->loop, fd, NULL, NULL),
			  peer, NULL);
}

int
api_listen(struct api *a, const char *path, uid_t workers, char **msg)
{
	struct listen_options o = {
	    .mode = 0600, .uid = workers, .gid = (gid_t)-1};
	struct addr addr;
	int fd, r;

	if ((r = addr_unix(&addr, path)) != 0 ||
	    (r = listener_bind(&addr, &o, &fd)) != 0) {
		*msg = xasprintf("cannot listen on %s: %s%s", path, err_text(r),
				 r == E_LIMIT ? " (a shorter state_dir helps)"
					      : "");
		return r;
	}
	a->workers = workers;
	a->path = xstrdup(path);
	a->ls = listener_take_fd(a->loop, fd, accepted_cb, a);
	return 0;
}

/* --- life -------------------------------------------------------------- */

static int
add(struct api *a, const struct api_entry *e)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i].method, e->method) == 0 &&
		    strcmp(a->v[i].pattern, e->pattern) == 0)
			return E_EXISTS;
	a->v = xreallocarray(a->v, a->n + 1, sizeof(*a->v));
	a->v[a->n++] = *e;
	return 0;
}

int
api_route(struct api *a, const char *method, const char *pattern,
	  api_handler *fn, void *arg)
{
	struct api_entry e = {method, pattern, fn, arg, false};

	return add(a, &e);
}

int
api_route_public(struct api *a, const char *method, const char *pattern,
		 api_handler *fn, void *arg)
{
	struct api_entry e = {method, pattern, fn, arg, true};

	return add(a, &e);
}

struct api *
api_new(struct loop *l)
{
	/* Workers keep their connections for a moment, and hold back on behalf
	 * of clients that read a stream slowly: those have deadlines there. */
	static const struct httpd_options ho = {.head_ms = MINUTE_MS,
						.idle_ms = DAY_MS,
						.handshake_ms = DAY_MS,
						.body_ms = 5ULL * MINUTE_MS,
						.write_ms = DAY_MS,
						.linger_ms = 1000};
	static const struct httpd_handler handler = {.request = request_cb,
						     .refused = refused_cb};
	struct api *a = xcalloc(1, sizeof(*a));

	a->loop = l;
	a->httpd = httpd_new(l, &ho, &handler, a);
	return a;
}

void
api_free(struct api *a)
{
	if (a == NULL)
		return;
	if (a->ls != NULL)
		listener_close(a->ls);
	if (a->path != NULL)
		(void)unlink(a->path);
	httpd_close_all(a->httpd);
	httpd_free(a->httpd);
	free(a->path);
	free(a->v);
	free(a);
}
