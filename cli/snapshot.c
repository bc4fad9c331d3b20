/* SPDX-License-Identifier: Apache-2.0 */
/* sbx snapshot: archives of what jobs wrote. A downloaded one is complete under
 * its name, or not there. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/place.h"
#include "cli/progress.h"
#include "cli/url.h"

#define SNAPSHOT_ID 24

static bool
snapshot_is_id(const char *s)
{
	return strlen(s) == SNAPSHOT_ID &&
	       strspn(s, "0123456789abcdef") == SNAPSHOT_ID;
}

static int
snapshot_no_id(const char *s)
{
	say_error("%s: not the id of a snapshot", s);
	return EXIT_FAILED;
}

/* --- create ------------------------------------------------------------ */
/* Until it is no longer being made. */
static int
snapshot_wait(struct place *p, const char *id, struct json_doc **doc)
{
	char *target =
	    xasprintf("/api/snapshots/%s?wait=ready&timeout=60s", id);
	int r;

	for (;;) {
		json_doc_free(*doc);
		*doc = NULL;
		if ((r = place_ask(p, "GET", target, NULL, doc)) != 0 ||
		    strcmp(job_text(json_root(*doc), "state"), "CREATING") != 0)
			break;
	}
	free(target);
	return r;
}

static int
snapshot_make(struct place *p, const char *job, const char *volume, bool stop,
	      struct json_doc **doc)
{
	struct strbuf target = {0}, body = {0};
	int r;

	strbuf_addf(&target, "/api/jobs/%s/%s/%s", place_ns(p), job,
		    stop ? "cancel?snapshot=1" : "snapshots");
	strbuf_addc(&body, '{');
	if (volume != NULL && stop) {
		strbuf_adds(&target, "&volume=");
		url_encode(&target, strv_of(volume));
	} else if (volume != NULL) {
		strbuf_adds(&body, "\"volume\":");
		strbuf_add_json(&body, strv_of(volume));
	}
	strbuf_addc(&body, '}');
	r = place_ask(p, "POST", target.s, &body, doc);
	strbuf_clear(&target);
	strbuf_clear(&body);
	return r;
}

static int
snapshot_create(struct place *p, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"no-wait", no_argument, NULL, 'W'},
	    {"kill", no_argument, NULL, 'k'},
	    {"volume", required_argument, NULL, 'v'},
	    {NULL, 0, NULL, 0}};
	bool wait = true, stop = false;
	struct json_doc *doc = NULL;
	const char *volume = NULL, *state;
	struct job j;
	char *id;
	int c, r;

	while ((c = getopt_long(argc, argv, "kv:", longs, NULL)) != -1) {
		if (c == 'W')
			wait = false;
		else if (c == 'k')
			stop = true;
		else if (c == 'v')
			volume = optarg;
		else
			return cmd_usage("snapshot");
	}
	if (argc - optind != 1)
		return cmd_usage("snapshot");
	if ((r = place_open(p)) != 0 ||
	    (r = job_find(p, argv[optind], &j)) != 0)
		return r;
	r = snapshot_make(p, j.id, volume, stop, &doc);
	id = xstrdup(r == 0 ? job_text(json_root(doc), "id") : "");
	if (r == 0 && wait)
		r = snapshot_wait(p, id, &doc);
	state = r == 0 ? job_text(json_root(doc), "state") : "";
	if (r == 0 && strcmp(state, "FAILED") == 0) {
		say_error("%s: %s", id, job_text(json_root(doc), "reason"));
		r = EXIT_FAILED;
	}
	if (r == 0)
		printf("%s\n", id);
	free(id);
	json_doc_free(doc);
	job_clear(&j);
	return r;
}

/* --- ls ---------------------------------------------------------------- */
static void
snapshot_row(const struct json *sn, bool quiet)
{
	uint64_t size = 0;

	if (quiet) {
		printf("%s\n", job_text(sn, "id"));
		return;
	}
	if (json_u64(json_get(sn, "size"), UINT64_MAX, &size) != 0)
		size = 0;
	printf("%-24s  %-24s  %-8s  %12llu  %-20.19s  %s\n", job_text(sn, "id"),
	       job_text(sn, "job"), job_text(sn, "state"),
	       (unsigned long long)size, job_text(sn, "createdAt"),
	       job_text(sn, "reason"));
}

static int
snapshot_pages(struct place *p, const char *job, bool quiet)
{
	struct json_doc *doc = NULL;
	char *cursor = xstrdup("");
	struct strbuf b = {0};
	int r;

	do {
		const struct json *it = NULL;

		strbuf_reset(&b);
		strbuf_addf(&b, "/api/snapshots?namespace=%s", place_ns(p));
		if (job != NULL)
			strbuf_addf(&b, "&job=%s", job);
		if (*cursor != '\0')
			strbuf_addf(&b, "&cursor=%s", cursor);
		if ((r = place_ask(p, "GET", b.s, NULL, &doc)) != 0)
			break;
		while (
		    json_each(json_get(json_root(doc), "snapshots"), &it, NULL))
			snapshot_row(it, quiet);
		free(cursor);
		cursor = xstrdup(job_text(json_root(doc), "nextCursor"));
		json_doc_free(doc);
		doc = NULL;
	} while (*cursor != '\0');
	free(cursor);
	strbuf_clear(&b);
	return r;
}

static int
snapshot_ls(struct place *p, int argc, char **argv)
{
	struct job j = {.doc = NULL};
	bool quiet = false;
	int c, r;

	while ((c = getopt(argc, argv, "q")) != -1) {
		if (c != 'q')
			return cmd_usage("snapshot");
		quiet = true;
	}
	if (argc - optind > 1)
		return cmd_usage("snapshot");
	if ((r = place_open(p)) == 0 && place_ns(p) == NULL)
		r = EXIT_FAILED;
	if (r == 0 && optind < argc)
		r = job_find(p, argv[optind], &j);
	if (r == 0 && !quiet)
		printf("%-24s  %-24s  %-8s  %12s  %-20s  %s\n", "ID", "JOB",
		       "STATE", "SIZE", "CREATED", "REASON");
	if (r == 0)
		r = snapshot_pages(p, j.id, quiet);
	job_clear(&j);
	return r;
}

/* --- rm ---------------------------------------------------------------- */
static int
snapshot_rm(struct place *p, int argc, char **argv)
{
	int r = argc < 2 ? cmd_usage("snapshot") : place_open(p), one;

	if (argc < 2 || r != 0)
		return r;
	for (int i = 1; i < argc; i++) {
		char *target = xasprintf("/api/snapshots/%s", argv[i]);
		struct json_doc *doc = NULL;

		one = snapshot_is_id(argv[i])
			  ? place_ask(p, "DELETE", target, NULL, &doc)
			  : snapshot_no_id(argv[i]);
		if (one != 0)
			r = one;
		json_doc_free(doc);
		free(target);
	}
	return r;
}

/* --- get --------------------------------------------------------------- */
struct snapshot_out {
	int fd;
	bool failed;
	struct progress bar;
};

static void
snapshot_data(struct strv piece, void *arg)
{
	struct snapshot_out *o = arg;

	if (!o->failed && fd_write_all(o->fd, piece.p, piece.len) != 0)
		o->failed = true;
	progress_add(&o->bar, piece.len);
}

static int
snapshot_fetch(struct place *p, const char *id, const char *name, int fd)
{
	struct snapshot_out o = {.fd = fd};
	char *target = xasprintf("/api/snapshots/%s/content", id);
	int r;

	progress_start(&o.bar, name, 0);
	r = place_stream(p, target, snapshot_data, &o);
	progress_end(&o.bar);
	if (r == 0 && o.failed) {
		say_error("%s: cannot be written", name);
		r = EXIT_FAILED;
	}
	free(target);
	return r;
}

static int
snapshot_file(struct place *p, const char *id, const char *to)
{
	char *part = xasprintf("%s.part", to);
	int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), r;

	if (fd < 0) {
		say_error("%s: %s", part, strerror(errno));
		free(part);
		return EXIT_FAILED;
	}
	r = snapshot_fetch(p, id, to, fd);
	if (close(fd) != 0 || (r == 0 && rename(part, to) != 0)) {
		say_error("%s: %s", to, strerror(errno));
		r = EXIT_FAILED;
	}
	if (r != 0)
		(void)unlink(part);
	free(part);
	return r;
}

static int
snapshot_get(struct place *p, int argc, char **argv)
{
	int r;

	if (argc != 3)
		return cmd_usage("snapshot");
	if (!snapshot_is_id(argv[1]))
		return snapshot_no_id(argv[1]);
	if ((r = place_open(p)) != 0)
		return r;
	if (strcmp(argv[2], "-") == 0)
		return snapshot_fetch(p, argv[1], "-", STDOUT_FILENO);
	return snapshot_file(p, argv[1], argv[2]);
}

int
cmd_snapshot(struct place *p, int argc, char **argv)
{
	static const struct {
		const char *name;
		cmd_fn *fn;
	} orders[] = {{"create", snapshot_create},
		      {"ls", snapshot_ls},
		      {"rm", snapshot_rm},
		      {"get", snapshot_get}};

	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(orders); i++)
		if (strcmp(argv[1], orders[i].name) == 0)
			return orders[i].fn(p, argc - 1, argv + 1);
	return cmd_usage("snapshot");
}
