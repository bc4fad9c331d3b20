/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbx exec: a command in a sandbox, with its output as it comes and its exit
 * status as ours. It has an exec_id, so that it survives the connection: we
 * come back for what we have not read yet, and it is never run twice. With our
 * input or terminal it is live.c's.
 */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/token.h"
#include "cli/cmd.h"
#include "cli/lines.h"
#include "cli/live.h"
#include "cli/pair.h"
#include "cli/place.h"
#include "cli/status.h"
#include "cli/terminal.h"
#include "net/loop.h"

/* As long as an agent waits for us (SBX_RESUME). */
#define REMOTE_LOST_MS  60000
#define REMOTE_PAUSE_MS 100
#define REMOTE_PAUSE_TO 1000
#define REMOTE_GRACE_S  2 /* from TERM or HUP to KILL */

struct remote {
	struct place *p;
	struct job job;
	struct lines lines;
	char id[40];   /* exec_id */
	uint64_t next; /* position after what we have */
	long pid;      /* 0: not told yet */
	uint64_t pause_ms;
	uint64_t lost_ms; /* when nothing came any more; 0: something does */
	int status;       /* -1: no exit was told */
	int stop;         /* a signal that is to be dealt with */
	unsigned signals;
};

/* --- what it says ------------------------------------------------------ */

static void
remote_output(struct remote *r, const struct json *v, int fd)
{
	struct strbuf b = {0};
	uint64_t next;

	/* The agent's: a piece that is not whole is not to be had. */
	if (base64_decode(strv_of(json_string(json_get(v, "data"))), &b) == 0 &&
	    r->status == -1 && fd_write_all(fd, b.s, b.len) != 0)
		r->stop = SIGPIPE; /* as if it had met us */
	strbuf_clear(&b);
	if (json_u64(json_get(v, "next"), UINT64_MAX, &next) == 0)
		r->next = next;
}

static void
remote_start(struct remote *r, const struct json *v)
{
	uint64_t pid;

	if (json_u64(json_get(v, "pid"), INT32_MAX, &pid) == 0)
		r->pid = (long)pid;
}

static void
remote_dropped(const struct json *v)
{
	uint64_t n = 0;

	if (json_u64(json_get(v, "bytes"), UINT64_MAX, &n) == 0)
		say_error("%" PRIu64 " bytes of output were lost", n);
}

static void
remote_line(struct strv line, void *arg)
{
	struct remote *r = arg;
	struct json_doc *doc;
	const struct json *v;
	const char *event;

	if (r->stop != 0 || json_parse(line, &doc, NULL) != 0)
		return;
	r->lost_ms = 0;
	r->pause_ms = REMOTE_PAUSE_MS;
	v = json_root(doc);
	event = json_string(json_get(v, "event"));
	if (event == NULL)
		;
	else if (strcmp(event, "stdout") == 0)
		remote_output(r, v, STDOUT_FILENO);
	else if (strcmp(event, "stderr") == 0)
		remote_output(r, v, STDERR_FILENO);
	else if (strcmp(event, "start") == 0)
		remote_start(r, v);
	else if (strcmp(event, "dropped") == 0)
		remote_dropped(v);
	else if (strcmp(event, "exit") == 0)
		r->status = status_of_exit(v);
	json_doc_free(doc);
}

static void
remote_data(struct strv piece, void *arg)
{
	struct remote *r = arg;

	lines_add(&r->lines, piece);
}

/* --- signals ----------------------------------------------------------- */

static void
remote_signal_cb(int signo, void *arg)
{
	struct remote *r = arg;

	r->stop = signo;
}

/* To the command, about which nothing else may be known any more. */
static void
remote_order(struct remote *r, const char *method, const char *what,
	     struct strv json)
{
	struct web_ask q = {.method = method, .json = json};
	char *target = xasprintf("/processes/%ld%s", r->pid, what);
	struct web_answer a;

	/* Best effort: without us it is ended soon. */
	(void)!job_try(r->p, &r->job, &q, target, &a);
	web_answer_clear(&a);
	free(target);
}

/* The first signal is passed on, and we wait for what comes of it; a second one
 * (or too long a time after TERM and HUP) ends the command. */
static void
remote_stopped(struct remote *r)
{
	int signo = r->stop;
	char json[32];

	r->stop = 0;
	if (r->signals++ > 0 || signo == SIGPIPE || r->pid == 0) {
		if (r->pid != 0)
			remote_order(r, "DELETE", "", STRV_NULL);
		r->status = 128 + (signo == SIGALRM ? SIGTERM : signo);
		return;
	}
	if (signo == SIGTERM || signo == SIGHUP)
		(void)alarm(REMOTE_GRACE_S);
	(void)snprintf(json, sizeof(json), "{\"signal\":%d}", signo);
	remote_order(r, "POST", "/kill", strv_of(json));
}

/* --- again ------------------------------------------------------------- */

static void
remote_woken(void *arg)
{
	*(bool *)arg = true;
}

static void
remote_wait(struct remote *r)
{
	bool over = false;
	struct timer t;

	timer_init(&t, r->p->loop, remote_woken, &over);
	timer_set(&t, r->pause_ms);
	while (!over && r->stop == 0)
		loop_once(r->p->loop, true);
	timer_clear(&t);
	r->pause_ms *= 2;
	if (r->pause_ms > REMOTE_PAUSE_TO)
		r->pause_ms = REMOTE_PAUSE_TO;
}

/* Whether it is to be tried again after that; else it was said why not. */
static bool
remote_again(struct remote *r, int err, const struct web_answer *a, bool first)
{
	uint64_t now = loop_clock_us() / 1000;
	bool final = err == 0 && a->status >= 400 &&
		     (first || a->status < 500 || a->status == 501);

	if (final) {
		place_refused(r->job.id, a);
		r->status =
		    a->status == 400 && r->pid == 0 ? EXIT_NO_START : EXIT_OURS;
		return false;
	}
	if (r->lost_ms == 0)
		r->lost_ms = now;
	if (now - r->lost_ms < REMOTE_LOST_MS)
		return true;
	say_error("%s: the connection was lost before the command ended%s%s",
		  r->job.id, err != 0 ? ": " : "", err != 0 ? a->why : "");
	r->status = EXIT_OURS;
	return false;
}

/* Once: the request, or what is missing of its answer. */
static void
remote_ask(struct remote *r, struct strv body, bool first)
{
	struct web_ask q = {
	    .method = "POST", .data = remote_data, .arg = r, .stop = &r->stop};
	struct web_answer a;
	char *target;
	int err;

	if (r->pid != 0) {
		q.method = "GET";
		target = xasprintf("/exec/%s?from=%" PRIu64, r->id, r->next);
	} else { /* the same bytes are never a second command */
		q.json = body;
		target = xstrdup("/exec");
	}
	err = job_try(r->p, &r->job, &q, target, &a);
	lines_end(&r->lines);
	if (r->status == -1 && r->stop == 0 && remote_again(r, err, &a, first))
		remote_wait(r);
	web_answer_clear(&a);
	free(target);
}

static int
remote_run(struct remote *r, struct strv body)
{
	static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP,
				      SIGALRM};
	bool first = true;

	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		loop_on_signal(r->p->loop, signals[i], remote_signal_cb, r);
	r->pause_ms = REMOTE_PAUSE_MS;
	while (r->status == -1) {
		remote_ask(r, body, first);
		first = false;
		if (r->stop != 0 && r->status == -1)
			remote_stopped(r);
	}
	return r->status;
}

/* --- the request ------------------------------------------------------- */

struct remote_options {
	struct strbuf env; /* JSON members */
	const char *cwd;
	double timeout;
	bool input, shell, tty;
};

/* The names in it are ours, and JSON leaves no bare quote in a value. */
static bool
remote_has_env(const struct remote_options *o, const char *member)
{
	return o->env.len > 0 &&
	       memmem(o->env.s, o->env.len, member, strlen(member)) != NULL;
}

static void
remote_terminal(struct strbuf *b, struct remote_options *o)
{
	const char *term = getenv("TERM");
	uint16_t cols, rows;

	terminal_size(&cols, &rows);
	strbuf_addf(b, "\"tty\":true,\"cols\":%u,\"rows\":%u,", (unsigned)cols,
		    (unsigned)rows);
	if (term != NULL && !remote_has_env(o, "\"TERM\":"))
		pair_add(&o->env, "TERM", term);
}

static void
remote_body(struct strbuf *b, const struct remote_options *o, char **cmd)
{
	strbuf_adds(b, "\"cmd\":");
	if (o->shell) {
		strbuf_add_json(b, strv_of(cmd[0]));
	} else {
		for (char **s = cmd; *s != NULL; s++) {
			strbuf_addc(b, s == cmd ? '[' : ',');
			strbuf_add_json(b, strv_of(*s));
		}
		strbuf_addc(b, ']');
	}
	if (o->env.len > 0)
		strbuf_addf(b, ",\"env\":{%.*s}", (int)o->env.len, o->env.s);
	if (o->cwd != NULL) {
		strbuf_adds(b, ",\"cwd\":");
		strbuf_add_json(b, strv_of(o->cwd));
	}
	if (o->timeout > 0)
		strbuf_addf(b, ",\"timeout\":%.3f", o->timeout);
	strbuf_addc(b, '}');
}

static int
remote_exec(struct remote *r, struct remote_options *o, char **cmd)
{
	struct strbuf b = {0};
	int s;

	strbuf_addc(&b, '{');
	if (o->tty) {
		remote_terminal(&b, o);
	} else if (!o->input) {
		(void)snprintf(r->id, sizeof(r->id), "sbx-");
		token_label(r->id + strlen(r->id), 24);
		strbuf_addf(&b, "\"encoding\":\"base64\",\"exec_id\":\"%s\",",
			    r->id);
	}
	remote_body(&b, o, cmd);
	if (o->input || o->tty)
		s = live_run(r->p, &r->job, (struct strv){b.s, b.len}, o->tty);
	else
		s = remote_run(r, (struct strv){b.s, b.len});
	strbuf_clear(&b);
	return s;
}

/* --- the command line -------------------------------------------------- */

static int
remote_options(struct remote_options *o, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"env", required_argument, NULL, 'e'},
	    {"cwd", required_argument, NULL, 'w'},
	    {"timeout", required_argument, NULL, 'T'},
	    {"stdin", no_argument, NULL, 'i'},
	    {"tty", no_argument, NULL, 't'},
	    {"shell", no_argument, NULL, 's'},
	    {NULL, 0, NULL, 0}};
	int c, s = 0;

	while (s == 0 &&
	       (c = getopt_long(argc, argv, "+e:w:its", longs, NULL)) != -1) {
		if (c == 'e')
			s = pair_parse(&o->env, "--env", optarg, true);
		else if (c == 'w')
			o->cwd = optarg;
		else if (c == 'T')
			s = cmd_seconds("--timeout", optarg, &o->timeout);
		else if (c == 'i')
			o->input = true;
		else if (c == 't')
			o->tty = true;
		else if (c == 's')
			o->shell = true;
		else
			s = cmd_usage("exec");
	}
	if (s == 0 && o->tty && !isatty(STDIN_FILENO)) {
		say_error("-t: standard input is not a terminal");
		s = EXIT_USAGE;
	}
	return s;
}

int
cmd_exec(struct place *p, int argc, char **argv)
{
	struct remote r = {.p = p, .status = -1};
	struct remote_options o = {.shell = false};
	int s = remote_options(&o, argc, argv);

	argv += optind;
	if (s == 0 && argc - optind > 2 && strcmp(argv[1], "--") == 0)
		memmove(&argv[1], &argv[2],
			(size_t)(argc - optind - 1) * sizeof(*argv));
	if (s == 0 && (argc - optind < 2 || (o.shell && argv[2] != NULL)))
		s = cmd_usage("exec");
	r.lines.line = remote_line;
	r.lines.arg = &r;
	if (s == 0)
		s = place_open(p);
	if (s == 0 &&
	    (job_find(p, argv[0], &r.job) != 0 || job_reach(p, &r.job) != 0))
		s = EXIT_OURS;
	else if (s == 0)
		s = remote_exec(&r, &o, argv + 1);
	job_clear(&r.job);
	strbuf_clear(&o.env);
	return s;
}
