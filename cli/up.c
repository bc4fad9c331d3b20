/* SPDX-License-Identifier: Apache-2.0 */
/* sbx up: a sandbox that runs until it is killed; sbx run: a job with a
 * command, its output and its exit status. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/token.h"
#include "cli/cmd.h"
#include "cli/pair.h"
#include "cli/place.h"
#include "net/tlsctx.h"

#define UP_NONCE 16            /* bytes */
#define UP_IMAGE "python:3.12" /* a snapshot brings its own */

struct up {
	const char *name, *image, *flavor, *restore;
	struct strbuf env, secrets, labels, ports; /* JSON members, items */
	double timeout, idle;
	bool host, detach, no_wait;
	char nonce[2 * UP_NONCE + 1];
};

/* --- the request ------------------------------------------------------- */

static int
up_port(struct strbuf *b, const char *text)
{
	char *end;
	long port = strtol(text, &end, 10);

	if (*end != '\0' || port < 1 || port > 65535) {
		say_error("--port %s: not a port", text);
		return EXIT_USAGE;
	}
	if (b->len > 0)
		strbuf_addc(b, ',');
	strbuf_addf(b, "%ld", port);
	return 0;
}

/* What makes the job a sandbox; the token is known to who has the user's. */
static void
up_sandbox(struct place *p, struct up *u)
{
	char hex[65], *msg;
	uint8_t mac[32];
	char idle[32];

	token_hex(u->nonce, UP_NONCE);
	pair_add(&u->labels, "hf-sandbox", "1");
	pair_add(&u->labels, "hf-sandbox-mode", u->host ? "pool" : "dedicated");
	if (u->host)
		pair_add(&u->labels, "hf-sandbox-pool",
			 u->name != NULL ? u->name : "default");
	pair_add(&u->labels, "hf-sandbox-nonce", u->nonce);
	msg = xasprintf("hf-sandbox:%s", u->nonce);
	tls_hmac_sha256(strv_of(p->token), strv_of(msg), mac);
	token_hex_encode(hex, mac, sizeof(mac));
	pair_add(&u->secrets, "SBX_TOKEN", hex);
	pair_add(&u->env, "SBX_PORT", "49983");
	if (u->idle > 0) {
		(void)snprintf(idle, sizeof(idle), "%.0f", u->idle);
		pair_add(&u->env, "SBX_IDLE_TIMEOUT", idle);
	}
	if (u->host)
		pair_add(&u->env, "SBX_HOST_MODE", "1");
	if (u->ports.len > 0)
		strbuf_addc(&u->ports, ',');
	strbuf_adds(&u->ports, "49983");
	mem_secure_zero(mac, sizeof(mac));
	mem_secure_zero(hex, sizeof(hex));
	free(msg);
}

static void
up_body(const struct up *u, char *const *cmd, struct strbuf *b)
{
	strbuf_addc(b, '{');
	if (u->restore != NULL) {
		strbuf_adds(b, "\"restoreSnapshot\":");
		strbuf_add_json(b, strv_of(u->restore));
		strbuf_addc(b, ',');
	}
	if (u->image != NULL || u->restore == NULL) {
		strbuf_adds(b, "\"dockerImage\":");
		strbuf_add_json(
		    b, strv_of(u->image != NULL ? u->image : UP_IMAGE));
		strbuf_addc(b, ',');
	}
	strbuf_adds(b, "\"flavor\":");
	strbuf_add_json(b, strv_of(u->flavor));
	strbuf_adds(b, ",\"command\":[");
	for (size_t i = 0; cmd[i] != NULL; i++) {
		if (i > 0)
			strbuf_addc(b, ',');
		strbuf_add_json(b, strv_of(cmd[i]));
	}
	strbuf_addf(b,
		    "],\"arguments\":[],\"environment\":{%.*s},"
		    "\"secrets\":{%.*s},\"labels\":{%.*s}",
		    (int)u->env.len, u->env.len > 0 ? u->env.s : "",
		    (int)u->secrets.len, u->secrets.len > 0 ? u->secrets.s : "",
		    (int)u->labels.len, u->labels.len > 0 ? u->labels.s : "");
	if (u->timeout > 0)
		strbuf_addf(b, ",\"timeoutSeconds\":%.0f", u->timeout);
	if (u->ports.len > 0)
		strbuf_addf(b, ",\"expose\":{\"ports\":[%.*s]}",
			    (int)u->ports.len, u->ports.s);
	strbuf_addc(b, '}');
}

static int
up_create(struct place *p, struct up *u, char *const *cmd,
	  struct json_doc **doc)
{
	const char *ns = place_ns(p);
	struct strbuf b = {0};
	char *target;
	int r;

	if (ns == NULL)
		return EXIT_FAILED;
	if (u->name != NULL)
		pair_add(&u->labels, "name", u->name);
	up_body(u, cmd, &b);
	target = xasprintf("/api/jobs/%s", ns);
	r = place_ask(p, "POST", target, &b, doc);
	if (r == 0 && *job_text(json_root(*doc), "id") == '\0') {
		say_error("%s: the answer is not a job", p->url);
		json_doc_free(*doc);
		r = EXIT_FAILED;
	}
	free(target);
	mem_secure_zero(b.s, b.len);
	strbuf_clear(&b);
	return r;
}

static void
up_clear(struct up *u)
{
	strbuf_clear(&u->env);
	if (u->secrets.s != NULL)
		mem_secure_zero(u->secrets.s, u->secrets.len);
	strbuf_clear(&u->secrets);
	strbuf_clear(&u->labels);
	strbuf_clear(&u->ports);
}

/* --- options of both --------------------------------------------------- */

static int
up_option(struct up *u, int c, const char *name)
{
	switch (c) {
	case 'n':
		u->name = optarg;
		return 0;
	case 'i':
		u->image = optarg;
		return 0;
	case 'f':
		u->flavor = optarg;
		return 0;
	case 'e':
		return pair_parse(&u->env, "--env", optarg, true);
	case 's':
		return pair_parse(&u->secrets, "--secret", optarg, true);
	case 'l':
		return pair_parse(&u->labels, "--label", optarg, false);
	case 'p':
		return up_port(&u->ports, optarg);
	case 't':
		return cmd_seconds("--timeout", optarg, &u->timeout);
	case 'I':
		return cmd_seconds("--idle", optarg, &u->idle);
	case 'H':
		u->host = true;
		return 0;
	case 'd':
		u->detach = true;
		return 0;
	case 'r':
		u->restore = optarg;
		return 0;
	case 'W':
		u->no_wait = true;
		return 0;
	default:
		return cmd_usage(name);
	}
}

static int
up_options(struct up *u, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"name", required_argument, NULL, 'n'},
	    {"image", required_argument, NULL, 'i'},
	    {"flavor", required_argument, NULL, 'f'},
	    {"env", required_argument, NULL, 'e'},
	    {"secret", required_argument, NULL, 's'},
	    {"label", required_argument, NULL, 'l'},
	    {"port", required_argument, NULL, 'p'},
	    {"timeout", required_argument, NULL, 't'},
	    {"idle", required_argument, NULL, 'I'},
	    {"host", no_argument, NULL, 'H'},
	    {"detach", no_argument, NULL, 'd'},
	    {"no-wait", no_argument, NULL, 'W'},
	    {"restore", required_argument, NULL, 'r'},
	    {NULL, 0, NULL, 0}};
	int c, r = 0;

	u->flavor = "cpu-basic";
	while (r == 0 && (c = getopt_long(argc, argv, "+n:i:f:e:s:l:p:t:d",
					  longs, NULL)) != -1)
		r = up_option(u, c, argv[0]);
	return r;
}

/* --- up ---------------------------------------------------------------- */

/* The gateway holds the question while the sandbox starts. */
static int
up_wait(struct place *p, struct job *j)
{
	struct web_ask q = {.method = "GET", .bearer = p->token};
	struct web_answer a;
	char *target = xasprintf("%s/health", j->base);
	int r = EXIT_FAILED;

	q.target = target;
	for (int tries = 0; tries < 10; tries++) {
		bool ok = web_ask(j->web, &q, &a) == 0 && a.status == 200;
		bool later = a.status == 503;

		if (!ok && !later)
			place_refused(j->id, &a);
		web_answer_clear(&a);
		r = ok ? 0 : EXIT_FAILED;
		if (!later)
			break;
	}
	free(target);
	return r;
}

static int
up_ready(struct place *p, const struct up *u, const char *id)
{
	struct job j;
	int r;

	if ((r = job_find(p, id, &j)) != 0)
		return r;
	if ((r = job_reach(p, &j)) == 0 && !u->no_wait)
		r = up_wait(p, &j);
	if (r == 0) {
		printf("%s\n", j.id);
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "%s%s%s is up: sbx exec %s COMMAND\n",
				job_text(j.v, "status.message"),
				*job_text(j.v, "status.message") != '\0' ? "\n"
									 : "",
				u->name != NULL ? u->name : j.id,
				u->name != NULL ? u->name : j.id);
	}
	job_clear(&j);
	return r;
}

int
cmd_up(struct place *p, int argc, char **argv)
{
	static char none[] = "";
	char *const cmd[] = {none, NULL};
	struct json_doc *doc = NULL;
	struct up u = {.host = false};
	int r = up_options(&u, argc, argv);

	if (r == 0 && optind != argc)
		r = cmd_usage("up");
	if (r == 0 && (r = place_open(p)) == 0) {
		up_sandbox(p, &u);
		r = up_create(p, &u, cmd + 1, &doc);
	}
	if (r == 0) {
		r = up_ready(p, &u, job_text(json_root(doc), "id"));
		json_doc_free(doc);
	}
	up_clear(&u);
	return r;
}

/* --- run --------------------------------------------------------------- */

/* How it ended, in words where that is not its command's own status. */
static int
up_status(const struct json *job)
{
	const char *stage = job_text(job, "status.stage");
	const char *why = job_text(job, "status.message");
	uint64_t code;

	if (strncmp(why, "timed out", 9) == 0) {
		say_error("%s: %s", job_text(job, "id"), why);
		return EXIT_TIMED_OUT;
	}
	if (json_u64(json_get(json_get(job, "status"), "exitCode"), 255,
		     &code) == 0)
		return (int)code;
	if (strcmp(stage, "COMPLETED") == 0)
		return 0;
	say_error("%s: %s%s%s", job_text(job, "id"), stage,
		  *why != '\0' ? ": " : "", why);
	return strcmp(job_text(job, "status.reason"), "start_failed") == 0
		   ? EXIT_NO_START
		   : EXIT_OURS;
}

static int
up_finish(struct place *p, const char *id)
{
	struct json_doc *doc;
	char *target = xasprintf("/api/jobs/%s/%s?wait=terminal&timeout=60",
				 place_ns(p), id);
	const char *stage;
	bool runs;
	int r;

	do {
		if ((r = place_ask(p, "GET", target, NULL, &doc)) != 0)
			break;
		stage = job_text(json_root(doc), "status.stage");
		runs = strcmp(stage, "RUNNING") == 0 ||
		       strcmp(stage, "SCHEDULING") == 0;
		if (!runs)
			r = up_status(json_root(doc));
		json_doc_free(doc);
	} while (runs);
	free(target);
	return r;
}

int
cmd_run(struct place *p, int argc, char **argv)
{
	struct json_doc *doc = NULL;
	struct up u = {.host = false};
	int r = up_options(&u, argc, argv);
	const char *id;

	if (r == 0 && (optind == argc || u.host || u.idle > 0 || u.no_wait))
		r = cmd_usage("run");
	if (r == 0 && (r = place_open(p)) == 0)
		r = up_create(p, &u, argv + optind, &doc);
	up_clear(&u);
	if (r != 0)
		return r == EXIT_USAGE ? r : EXIT_OURS;
	id = job_text(json_root(doc), "id");
	if (u.detach) {
		printf("%s\n", id);
	} else {
		r = joblogs_print(p, id, true, -1);
		r = r == 0 ? up_finish(p, id) : EXIT_OURS;
	}
	json_doc_free(doc);
	return r;
}
