/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbx exec: a command in a sandbox, with its output as it comes and its exit
 * status as ours. An input is put into a file there first, so that it may be of
 * any size and hold any bytes.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
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
#include "cli/pair.h"
#include "cli/place.h"
#include "cli/spool.h"
#include "cli/url.h"

struct remote {
	struct job job;
	struct lines lines;
	int status;  /* -1: no exit was told */
	bool broken; /* our own output is gone */
};

/* --- what it says ------------------------------------------------------ */

static void
remote_output(struct remote *r, const struct json *v, int fd)
{
	struct strbuf b = {0};

	/* The agent's: a piece that is not whole is not to be had. */
	if (base64_decode(strv_of(json_string(json_get(v, "data"))), &b) == 0 &&
	    !r->broken && fd_write_all(fd, b.s, b.len) != 0)
		r->broken = true;
	strbuf_clear(&b);
}

static void
remote_exit(struct remote *r, const struct json *v)
{
	uint64_t code = 0, sig = 0;
	bool timed_out = false;

	if (json_bool(json_get(v, "timed_out"), &timed_out) == 0 && timed_out)
		r->status = EXIT_TIMED_OUT;
	else if (json_u64(json_get(v, "signal"), 127, &sig) == 0)
		r->status = 128 + (int)sig;
	else if (json_u64(json_get(v, "exit_code"), 255, &code) == 0)
		r->status = (int)code;
}

static void
remote_line(struct strv line, void *arg)
{
	struct json_doc *doc;
	struct remote *r = arg;
	const char *event;

	if (json_parse(line, &doc, NULL) != 0)
		return;
	event = json_string(json_get(json_root(doc), "event"));
	if (event != NULL && strcmp(event, "stdout") == 0)
		remote_output(r, json_root(doc), STDOUT_FILENO);
	else if (event != NULL && strcmp(event, "stderr") == 0)
		remote_output(r, json_root(doc), STDERR_FILENO);
	else if (event != NULL && strcmp(event, "exit") == 0)
		remote_exit(r, json_root(doc));
	json_doc_free(doc);
}

static void
remote_data(struct strv piece, void *arg)
{
	struct remote *r = arg;

	lines_add(&r->lines, piece);
}

/* --- the input --------------------------------------------------------- */

static int
remote_file(struct place *p, struct job *j, const char *method,
	    const char *target, int fd, uint64_t length)
{
	struct web_ask q = {.method = method, .fd = fd, .length = length};
	struct web_answer a;
	int r = job_ask(p, j, &q, target, &a);

	web_answer_clear(&a);
	return r;
}

/* Where the input goes: for the agent, and for the command. A sandbox of a
 * host has its home as root there. */
static const char *
remote_dir(const struct job *j, bool inside)
{
	if (j->inside == NULL)
		return "/tmp";
	return inside ? "$TMPDIR" : "/.tmp";
}

static int
remote_put_input(struct place *p, struct job *j, const char *name)
{
	uint64_t length;
	int fd = spool_stdin(&length), r;
	char *target;

	if (fd == -1) {
		say_error("standard input: %s", strerror(errno));
		return EXIT_OURS;
	}
	target = xasprintf("/files/write?path=%s/%s&mode=600",
			   remote_dir(j, false), name);
	r = remote_file(p, j, "PUT", target, fd, length);
	free(target);
	(void)close(fd);
	return r;
}

static void
remote_drop_input(struct place *p, struct job *j, const char *name)
{
	char *target =
	    xasprintf("/files/delete?path=%s/%s", remote_dir(j, false), name);

	/* Best effort: it goes with the sandbox at the latest. */
	(void)remote_file(p, j, "DELETE", target, 0, 0);
	free(target);
}

/* --- the request ------------------------------------------------------- */

struct remote_options {
	struct strbuf env; /* JSON members */
	const char *cwd;
	double timeout;
	bool input, shell;
};

static void
remote_body(struct strbuf *b, const struct remote_options *o, const char *dir,
	    const char *input, char **cmd)
{
	strbuf_adds(b, "{\"encoding\":\"base64\",\"cmd\":");
	if (o->shell && input == NULL) {
		strbuf_add_json(b, strv_of(cmd[0]));
	} else {
		strbuf_addc(b, '[');
		if (input != NULL)
			strbuf_addf(b,
				    "\"/bin/sh\",\"-c\",\"exec \\\"$@\\\" "
				    "<%s/%s\",\"sh\",",
				    dir, input);
		if (o->shell)
			strbuf_adds(b, "\"/bin/sh\",\"-c\",");
		for (char **s = cmd; *s != NULL; s++) {
			if (s != cmd)
				strbuf_addc(b, ',');
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
remote_exec(struct place *p, struct remote *r, const struct remote_options *o,
	    char **cmd)
{
	struct web_ask q = {.method = "POST", .data = remote_data, .arg = r};
	char name[64] = "sbx-input-";
	struct strbuf b = {0};
	struct web_answer a;
	int s;

	if (o->input) {
		token_label(name + strlen(name), 16);
		if (remote_put_input(p, &r->job, name) != 0)
			return EXIT_OURS;
	}
	remote_body(&b, o, remote_dir(&r->job, true), o->input ? name : NULL,
		    cmd);
	q.json = (struct strv){b.s, b.len};
	s = job_ask(p, &r->job, &q, "/exec", &a);
	lines_end(&r->lines);
	if (s != 0)
		r->status = a.status == 400 ? EXIT_NO_START : EXIT_OURS;
	web_answer_clear(&a);
	strbuf_clear(&b);
	if (o->input)
		remote_drop_input(p, &r->job, name);
	return 0;
}

int
cmd_exec(struct place *p, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"env", required_argument, NULL, 'e'},
	    {"cwd", required_argument, NULL, 'w'},
	    {"timeout", required_argument, NULL, 't'},
	    {"stdin", no_argument, NULL, 'i'},
	    {"shell", no_argument, NULL, 's'},
	    {NULL, 0, NULL, 0}};
	struct remote r = {.status = -1};
	struct remote_options o = {.shell = false};
	int c, s = 0;

	while (s == 0 &&
	       (c = getopt_long(argc, argv, "+e:w:t:is", longs, NULL)) != -1) {
		if (c == 'e')
			s = pair_parse(&o.env, "--env", optarg, true);
		else if (c == 'w')
			o.cwd = optarg;
		else if (c == 't')
			s = cmd_seconds("--timeout", optarg, &o.timeout);
		else if (c == 'i')
			o.input = true;
		else if (c == 's')
			o.shell = true;
		else
			s = cmd_usage("exec");
	}
	argv += optind;
	if (s == 0 && argc - optind > 2 && strcmp(argv[1], "--") == 0)
		memmove(&argv[1], &argv[2],
			(size_t)(argc - optind - 1) * sizeof(*argv));
	if (s == 0 && (argc - optind < 2 || (o.shell && argv[2] != NULL)))
		s = cmd_usage("exec");
	r.lines.line = remote_line;
	r.lines.arg = &r;
	if (s == 0 &&
	    ((s = place_open(p)) != 0 || job_find(p, argv[0], &r.job) != 0 ||
	     job_reach(p, &r.job) != 0)) {
		s = s != 0 ? s : EXIT_OURS;
	} else if (s == 0) {
		s = remote_exec(p, &r, &o, argv + 1);
		if (s == 0 && r.status == -1)
			say_error("the connection was lost before the command "
				  "ended");
		if (s == 0)
			s = r.status != -1 ? r.status : EXIT_OURS;
	}
	job_clear(&r.job);
	strbuf_clear(&o.env);
	return s;
}
