/* SPDX-License-Identifier: Apache-2.0 */
/* sbx logs: what a job printed, and what it prints. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/lines.h"
#include "cli/place.h"

/* A record: one line 'data: {"timestamp":…,"data":"text"}'. */
static void
joblogs_line(struct strv line, void *arg)
{
	const char *text;
	struct json_doc *doc;

	(void)arg;
	if (!strv_starts(line, STRV("data: ")) ||
	    json_parse(strv_from(line, 6), &doc, NULL) != 0)
		return;
	text = json_string(json_get(json_root(doc), "data"));
	if (text != NULL && strncmp(text, "===== Job started", 17) != 0) {
		/* What is said about the job is none of its output. */
		FILE *f = strncmp(text, "===== ", 6) == 0 ? stderr : stdout;

		(void)fputs(text, f);
		if (*text == '\0' || text[strlen(text) - 1] != '\n')
			(void)fputc('\n', f);
		(void)fflush(f);
	}
	json_doc_free(doc);
}

static void
joblogs_data(struct strv piece, void *arg)
{
	lines_add(arg, piece);
}

int
joblogs_print(struct place *p, const char *id, bool follow, long tail)
{
	struct lines l = {.line = joblogs_line};
	struct strbuf b = {0};
	const char *ns = place_ns(p);
	int r;

	if (ns == NULL)
		return EXIT_FAILED;
	strbuf_addf(&b, "/api/jobs/%s/%s/logs?follow=%s", ns, id,
		    follow ? "true" : "false");
	if (tail >= 0)
		strbuf_addf(&b, "&tail=%ld", tail);
	r = place_stream(p, b.s, joblogs_data, &l);
	lines_end(&l);
	strbuf_clear(&b);
	return r;
}

int
cmd_logs(struct place *p, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"follow", no_argument, NULL, 'f'},
	    {"tail", required_argument, NULL, 'n'},
	    {NULL, 0, NULL, 0}};
	struct job j = {.doc = NULL};
	bool follow = false;
	long tail = -1;
	int c, r;

	while ((c = getopt_long(argc, argv, "fn:", longs, NULL)) != -1) {
		char *end = NULL;

		if (c == 'f')
			follow = true;
		else if (c == 'n')
			tail = strtol(optarg, &end, 10);
		else
			return cmd_usage("logs");
		if (end != NULL && (*end != '\0' || tail < 0)) {
			say_error("--tail %s: not a number", optarg);
			return EXIT_USAGE;
		}
	}
	if (argc - optind != 1)
		return cmd_usage("logs");
	if ((r = place_open(p)) != 0)
		return r;
	if ((r = job_find(p, argv[optind], &j)) == 0)
		r = joblogs_print(p, j.id, follow, tail);
	job_clear(&j);
	return r;
}
