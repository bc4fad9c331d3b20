/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the API share; private. A `call` is a request that was
 * authorised and found its route; it lives as long as its exchange.
 */
#ifndef SBX_AGENT_API_INT_H
#define SBX_AGENT_API_INT_H

#include "agent/api.h"
#include "agent/host.h"
#include "agent/sandbox.h"
#include "agent/work.h"
#include "base/json.h"
#include "base/str.h"
#include "net/httpd.h"

#define API_JSON_TYPE "application/json"
#define API_BODY_MAX  (64U << 20) /* exec, with its stdin */
#define API_SMALL_MAX (1U << 20)
/* Bodies and long answers in memory at the same time. */
#define API_HELD_SANDBOX (2U * API_BODY_MAX)
#define API_HELD_ALL     (8U * API_BODY_MAX)

struct api {
	struct api_options o;
	struct httpd *httpd;
	uint64_t started_us;
	uint64_t active_ms;
	unsigned busy;
	struct apitunnel *tunnels;
	struct apiattach *attached;
	size_t held;              /* bytes of bodies in memory, of all calls */
	struct work_lane closing; /* files whose sandbox is gone */
};

struct call {
	struct api *api;
	struct httpd_req *rq;
	struct sandbox *sb; /* entered; NULL: a route of the agent itself */
	enum http_method method;
	struct strv rest;  /* the path below /v1 or the sandbox */
	struct strv query; /* raw, without its '?' */
	struct strv id;    /* {x} in the route */
	struct strbuf body;
	size_t held;                 /* accounted for: api_hold() */
	bool quiet;                  /* keeps nothing from being idle */
	void (*run)(struct call *c); /* once the body is there */
	void *state;                 /* the handler's */
	/* May be NULL. */
	void (*on_body)(struct call *c, struct bufq *in, bool end);
	void (*on_drained)(struct call *c);
	void (*on_closed)(struct call *c, int err);
};

/* --- answers (apiutil.c) ----------------------------------------------- */
void api_answer(struct call *c, unsigned status, struct strbuf *json);
void api_error(struct httpd_req *rq, unsigned status, const char *code,
	       const char *fmt, ...) SBX_PRINTF(4, 5);
/* fields: "Name: value\r\n"... */
void api_error_with(struct httpd_req *rq, unsigned status, struct strv fields,
		    const char *code, const char *text);
/* Accounts for n more bytes in memory until the call ends. When one sandbox's
 * clients hold too much already (429), or all clients do (503), it answers and
 * returns false. */
bool api_hold(struct call *c, size_t n);
/* The call ends. */
void api_unhold(struct call *c);
/* Reads the whole body (at most max bytes) into c->body, then calls run. */
void api_collect(struct call *c, size_t max, void (*run)(struct call *c));
/* Parses c->body; an empty one is {} when allowed. Answers and returns NULL
 * when it is not an object. */
struct json_doc *api_json(struct call *c, bool empty_ok);
/* A query parameter, percent-decoded into *out; false when it is not there.
 * E.g. of "a=1&b": b is there and empty. */
bool api_query(const struct call *c, const char *name, struct strbuf *out);
bool api_query_flag(const struct call *c, const char *name);
/* 0, E_NOTFOUND (not given), E_INVALID (answered with 400). */
int api_query_u64(struct call *c, const char *name,
		  uint64_t *out) SBX_MUST_CHECK;

/* Why a command did not start: the status, *code gets its name. */
unsigned api_exec_status(int err, const char **code);

/* --- commands with an exec_id (apilogs.c) ------------------------------ */
struct run;
/* Streams r's events from that position on. */
void api_exec_view(struct call *c, struct run *r, uint64_t from);
/* Answers and returns true when that exec_id was used and is forgotten. */
bool api_exec_is_gone(struct call *c, struct strv id);

/* --- what several of them use ------------------------------------------ */
struct execreq;
struct repl_set;
/* Ends those of exec/attach (apiattach.c). */
void api_attached_close(struct api *a);
/* A foreground command whose events are the answer (apiexec.c). */
void api_exec_start(struct call *c, struct execreq *e);
/* The sandbox's persistent contexts (apirepl.c), and why something cannot be
 * done with one. */
struct repl_set *api_repls(struct call *c);
void api_repl_refuse(struct call *c, int err, const char *why);

/* --- routes ------------------------------------------------------------ */
void api_exec(struct call *c);        /* POST exec */
void api_exec_resume(struct call *c); /* GET exec/{exec_id} */
void api_exec_attach(struct call *c); /* GET exec/attach */
void api_processes(struct call *c);   /* POST processes */
void api_procs_list(struct call *c);
void api_procs_delete(struct call *c);
void api_procs_logs(struct call *c);
void api_procs_wait(struct call *c);
void api_procs_kill(struct call *c);
void api_procs_stdin(struct call *c);
void api_ports(struct call *c);
void api_files_read(struct call *c);
void api_files_write(struct call *c);
void api_files_list(struct call *c);
void api_files_stat(struct call *c);
void api_files_delete(struct call *c);
void api_files_mkdir(struct call *c);
void api_proxy(struct call *c);
void api_run_code(struct call *c);
void api_run_code_fork(struct call *c);
void api_run_code_diff(struct call *c);
void api_run_code_merge(struct call *c);
void api_run_code_interrupt(struct call *c);
void api_run_code_list(struct call *c);
void api_run_code_delete(struct call *c);

void api_env_put(struct call *c);
void api_sandboxes_create(struct call *c);
void api_sandboxes_list(struct call *c);
void api_sandboxes_delete_all(struct call *c);
void api_sandbox_delete(struct call *c);
void api_sandbox_token(struct call *c);

#endif
