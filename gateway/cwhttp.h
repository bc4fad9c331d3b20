/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the transports of the CoreWeave service on HTTP/1.1 share: a request of
 * the control plane's server becomes a call, its body is collected within
 * bounds, JSON is read, and errors are told.
 */
#ifndef SBX_GATEWAY_CWHTTP_H
#define SBX_GATEWAY_CWHTTP_H

#include "base/str.h"
#include "gateway/api.h"
#include "gateway/cwcall.h"
#include "gateway/cwjson.h"

struct cwrest_rule;
struct cwsvc;

struct cwraw;

struct cwhttp {
	struct cwcall call; /* first: a call is its cwhttp */
	struct api_req *r;
	struct strbuf in; /* of the body; counts as held */
	/* The whole body is there (in `in`). */
	void (*whole)(struct cwhttp *h);
	/* cwraw.c */
	struct cwraw *raw; /* NULL: the method has no raw field */
	bool out_begun;    /* the answer is one, on its way */
	char carry[3];     /* of it: not a whole group yet */
	unsigned ncarry;
	/* cwrest.c */
	const struct cwrest_rule *rule;
	struct strv id;
	/* cwconnect.c, for streams */
	bool paused, got_one, half_closed;
};

/* The last envelope of a stream. */
void cwhttp_add_end(const struct cwerr *e, struct strbuf *b);
/* Answers with an error, when there is no call (yet); a request of a stream
 * with a stream of that alone, whatever status says. */
void cwhttp_refuse(struct api_req *r, const struct cwerr *e, unsigned status,
		   const char *extra);
/* Begins the call; ends with the request. NULL: answered already. */
struct cwhttp *cwhttp_new(struct api_req *r, struct cwsvc *svc,
			  const struct cwcall_method *m,
			  const struct cwcall_ops *ops);
/* For calls that do not stream: one answer. */
extern const struct cwcall_ops cwhttp_unary;
#define CWHTTP_HELD_MAX (192U << 20) /* of all requests together */
/* Collects the body, at most method->max, and calls `whole`. */
void cwhttp_collect(struct cwhttp *h, void (*whole)(struct cwhttp *h));
/* More of the body; false: too much, and the call has failed. */
bool cwhttp_take(struct cwhttp *h, struct strv piece);
/* What was taken is not needed any more. */
void cwhttp_drop(struct cwhttp *h);
/* Reads JSON, text, which is (a part of) `in` and is dropped with it, into m.
 * at: the field of m that it is of; NULL: m itself. False: the call has
 * failed. */
bool cwhttp_read(struct cwhttp *h, struct strv text, struct cwmsg *m,
		 const char *at);
/* Fails the call; e is cleared. */
void cwhttp_bad_message(struct cwhttp *h, struct cwjson_error *e);
/* httpd's callbacks that every call has. */
void cwhttp_closed(struct httpd_req *rq, int err, void *arg);
void cwhttp_peer_eof(struct httpd_req *rq, void *arg);
void cwhttp_drained(struct httpd_req *rq, void *arg); /* writable */

/* "application/json; charset=utf-8" is "application/json". */
bool cwhttp_type_is(const struct api_req *r, struct strv type);
/* Only "identity" or nothing; else answered. name: the field. */
bool cwhttp_plain(struct api_req *r, const char *name);

/* cwconnect.c, cwrest.c: add their routes. svc is borrowed. */
void cwconnect_add(struct api *a, struct cwsvc *svc);
void cwrest_add(struct api *a, struct cwsvc *svc);

#endif
