/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane's HTTP: a server in the master on a unix socket that only
 * workers can use, and a router. A worker has authenticated who asks and says
 * so in fields that no client can set (apiwho.h); what a handler is given here
 * is decided, and only has to be compared with what is asked for.
 *
 *   api_route(api, "GET", "/api/jobs/:ns/:id", job_get, jobs);
 *
 * A handler is called when the head is there. It owns the answer: at once,
 * later, or as a stream, with httpd.h's functions and the helpers below. Who
 * answers later sets callbacks (httpd_set_cbs) and forgets the request when
 * `closed` says so; struct api_req lives until that has returned.
 */
#ifndef SBX_GATEWAY_API_H
#define SBX_GATEWAY_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/apiwho.h"
#include "net/httpd.h"

struct api;
struct json;
struct loop;

#define API_PARAMS_MAX 8
#define API_BODY_MAX   (1u << 20) /* for api_body_json(), when 0 is given */

/* Entries of a list: unless `limit` says how many, and at the most. */
#define API_PAGE_DEFAULT 100
#define API_PAGE_MAX     1000

struct api_req {
	struct api *api;
	struct httpd_req *rq;
	const struct http_head *head;
	struct strv path;  /* as it was sent, without the query */
	struct strv query; /* as it was sent, without the '?' */
	/* What stands for ":ns" and so on, in order, percent-decoded; none is
	 * empty or holds a NUL. */
	struct strv param[API_PARAMS_MAX];
	size_t nparams;
	struct api_who who;
	void *arg; /* api_route()'s */
};

typedef void api_handler(struct api_req *r);

/* Without routes, and listening nowhere. */
struct api *api_new(struct loop *l);
void api_free(struct api *a); /* closes what is open; NULL is fine */
/* Serves the unix socket at path, for root, our own uid and that of the
 * workers. *msg: why not, malloc'ed. */
int api_listen(struct api *a, const char *path, uid_t workers,
	       char **msg) SBX_MUST_CHECK;

/*
 * Has fn answer requests with that method (GET: HEAD too) and a path of that
 * pattern: segments, those that begin with ':' standing for any one. A literal
 * segment goes before such a one ("/api/jobs/hardware" before
 * "/api/jobs/:ns"). method and pattern are borrowed. Others are answered 404,
 * or 405 with the methods that there are. E_EXISTS: it is there already.
 */
int api_route(struct api *a, const char *method, const char *pattern,
	      api_handler *fn, void *arg);
/* The same, for requests without a credential too (r->who.role API_NOBODY). The
 * workers must know of it: dispatch.c lists them. */
int api_route_public(struct api *a, const char *method, const char *pattern,
		     api_handler *fn, void *arg);

/* Parameters of the query, decoded ('+' is a blank), one after the other; *pos
 * starts as 0. Memory of the request. What cannot be decoded is left out. */
bool api_query_next(const struct api_req *r, size_t *pos, struct strv *name,
		    struct strv *value);
/* The first of that name; p NULL: there is none. */
struct strv api_query(const struct api_req *r, const char *name);
/* How long an answer may be held: its `timeout`, 30 s without one, 10 minutes
 * at the most. False: it was answered, with 400. */
bool api_timeout(struct api_req *r, uint64_t *ms) SBX_MUST_CHECK;

/*
 * Collects the body (at most max bytes; 0: API_BODY_MAX) and calls fn with its
 * root, or answers 400 or 413 itself. An empty body is an empty object. Sets
 * the request's callbacks; when fn is called they are empty again, and root
 * is good until it returns. May call before it returns.
 */
typedef void api_body_handler(struct api_req *r, const struct json *root);
void api_body_json(struct api_req *r, size_t max, api_body_handler *fn);

/* Answers; b is borrowed. extra: more fields, "Name: value\r\n"…, or NULL. */
void api_reply_json(struct api_req *r, unsigned status, const struct strbuf *b,
		    const char *extra);
/* In the Hub's form: {"error":"text","code":"…"} and X-Error-Message. code is
 * a static word ("bad_request"). */
void api_error(struct api_req *r, unsigned status, const char *code,
	       const char *fmt, ...) SBX_PRINTF(4, 5);

#endif
