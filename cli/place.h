/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway that is spoken to, as whom, and the jobs there. What fails is
 * said on standard error, where it happens; the functions then return an exit
 * status for main() other than 0.
 */
#ifndef SBX_CLI_PLACE_H
#define SBX_CLI_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/web.h"

#define EXIT_FAILED 1
#define EXIT_USAGE  2
/* Of exec and run, which pass on what a command ended with. */
#define EXIT_TIMED_OUT 124
#define EXIT_OURS      125
#define EXIT_NO_START  126

struct place {
	struct loop *loop;
	const char *url;   /* --url, SBX_URL, HF_ENDPOINT */
	const char *token; /* --token-file, HF_TOKEN */
	const char *ca;    /* --ca, SSL_CERT_FILE */
	const char *ns;    /* --namespace; NULL: the token's own */
	char *own_ns, *path, *secret;
	struct web *web;
};

/* "sbx: " and the text. */
void say_error(const char *fmt, ...) SBX_PRINTF(1, 2);

/* Connects nothing yet. 0, or EXIT_USAGE. */
int place_open(struct place *p);
void place_close(struct place *p);
/* The namespace that is worked in; NULL after an error was said. */
const char *place_ns(struct place *p);

/* Asks the gateway's API, target below /api; body NULL: none. *doc gets the
 * answer (NULL when it is not JSON). Answers of 400 and above are errors. */
int place_ask(struct place *p, const char *method, const char *target,
	      const struct strbuf *body, struct json_doc **doc);
/* As the above; the answer's pieces go to `data`. */
int place_stream(struct place *p, const char *target,
		 void (*data)(struct strv piece, void *arg), void *arg);
/* Says an answer's error in its own words. */
void place_refused(const char *what, const struct web_answer *a);

/* All pages of a list of jobs below /api/jobs/<ns>?<query>: fn for each. */
int place_each_job(struct place *p, const char *query,
		   void (*fn)(const struct json *job, void *arg), void *arg);

/* A job, and what is needed to speak to its agent. */
struct job {
	struct json_doc *doc;
	const struct json *v; /* the Job object */
	char *id;
	char *inside;    /* sandbox of a host's agent (id.inside); NULL: none */
	struct web *web; /* to its URL; may be the place's own */
	bool own_web;
	char *base;     /* path in front of /v1/… */
	char token[65]; /* X-Sandbox-Token; "" when it cannot be known */
	char *scope;    /* base + "/v1" or base + "/v1/sandboxes/<inside>" */
};

/* By id, the beginning of one, or a name (label "name"). */
int job_find(struct place *p, const char *what, struct job *j);
/* Goes on to its agent; the job must run. */
int job_reach(struct place *p, struct job *j);
void job_clear(struct job *j);
const char *job_stage(const struct job *j);
/* A member as text: "status.message", "labels.name"; "" when there is none. */
const char *job_text(const struct json *job, const char *path);
/* A request to the agent; target is below the scope, e.g. "/exec". */
int job_ask(struct place *p, struct job *j, struct web_ask *q,
	    const char *target, struct web_answer *a);
/* The same without a word: web_ask()'s result. */
int job_try(struct place *p, struct job *j, struct web_ask *q,
	    const char *target, struct web_answer *a);

#endif
