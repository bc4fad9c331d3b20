/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the Jobs API share. */
#ifndef SBX_GATEWAY_JOBAPI_INT_H
#define SBX_GATEWAY_JOBAPI_INT_H

#include "gateway/api.h"
#include "gateway/jobapi.h"
#include "gateway/jobs.h"

/* An open log, event stream or wait; embedded. */
struct jobapi_stream {
	struct jobapi_stream *next;
	struct jobapi_stream **prevp;
	void (*end)(void *arg); /* ends it in order, now */
	void *arg;
};

struct jobapi {
	struct jobs *js;
	struct snapshots *snapshots;
	struct jobapi_stream *streams;
	size_t nstreams;
	bool draining;
};

#define JOBAPI_KEEP_ALIVE_MS 15000

struct jobs *jobapi_service(const struct api_req *r);
/* Whether who may do that in namespace param 0; else it is answered. */
bool jobapi_may(struct api_req *r, bool change) SBX_MUST_CHECK;
/* Param 0 is a namespace and param 1 the id of a job in it that who may read
 * (or change); else it is answered. The same answer for a job that does not
 * exist and for one of others. */
int jobapi_find(struct api_req *r, bool change, struct job *out) SBX_MUST_CHECK;
void jobapi_reply(struct api_req *r, const struct job *j);
/* Whether there may be one more, else it is answered; to be asked first. */
bool jobapi_stream_may(struct api_req *r);
/* Adds it; end() is called when the gateway is to end. */
void jobapi_stream_add(struct jobapi *ja, struct jobapi_stream *s,
		       void (*end)(void *arg), void *arg);
void jobapi_stream_del(struct jobapi *ja, struct jobapi_stream *s);
/* Begins an event stream; false: the connection is of no use. */
bool jobapi_sse(struct api_req *r);
/* true, 1, yes / false, 0, no; what else there is: deflt. */
bool jobapi_flag(const struct api_req *r, const char *name, bool deflt);

/* jobapi_watch.c: GET /api/events, and GET of a job with ?wait= */
api_handler jobapi_events;
/* Answers now or later. what: "running" or "terminal". */
void jobapi_wait(struct api_req *r, const struct job *j, struct strv what);
/* jobapi_list.c */
api_handler jobapi_list;
/* jobapi_logs.c */
api_handler jobapi_logs;

#endif
