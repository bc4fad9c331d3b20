/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbx cp: files and directories, in and out of a sandbox. A file is complete
 * under its name, or not there: the agent replaces atomically, and so do we.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/place.h"
#include "cli/progress.h"
#include "cli/spool.h"
#include "cli/url.h"

#define COPY_DEPTH 64

struct copy {
	struct place *p;
	struct job job;
	struct progress bar;
	int out; /* what a download goes to */
	bool recursive;
	bool failed; /* writing it */
	unsigned depth;
};

/* --- requests ---------------------------------------------------------- */

static char *
copy_target(const char *route, const char *path, const char *more)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "/files/%s?path=", route);
	url_encode(&b, strv_of(path));
	strbuf_adds(&b, more);
	return strbuf_take(&b);
}

static int
copy_order(struct copy *c, const char *method, const char *route,
	   const char *path)
{
	struct web_ask q = {.method = method};
	char *target = copy_target(route, path, "");
	struct web_answer a;
	int r = job_ask(c->p, &c->job, &q, target, &a);

	web_answer_clear(&a);
	free(target);
	return r;
}

/* What is at path: 'f', 'd', 's', 0 (nothing), or -1 after an error. */
static int
copy_look(struct copy *c, const char *path)
{
	struct web_ask q = {
	    .method = "GET", .bearer = c->p->token, .token = c->job.token};
	char *route = copy_target("stat", path, "");
	char *target = xasprintf("%s%s", c->job.scope, route);
	struct json_doc *doc = NULL;
	struct web_answer a;
	int type = -1;

	q.target = target;
	if (web_ask(c->job.web, &q, &a) != 0) {
		say_error("%s: %s", c->job.id, a.why);
	} else if (a.status == 404) {
		type = 0;
	} else if (a.status != 200 ||
		   json_parse((struct strv){a.body.s, a.body.len}, &doc,
			      NULL) != 0) {
		place_refused(path, &a);
	} else {
		type = (unsigned char)job_text(json_root(doc), "type")[0];
	}
	json_doc_free(doc);
	web_answer_clear(&a);
	free(target);
	free(route);
	return type;
}

static char *
copy_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);

	return xasprintf("%s%s%s", dir, n > 0 && dir[n - 1] == '/' ? "" : "/",
			 name);
}

static const char *
copy_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* --- in ---------------------------------------------------------------- */

static void
copy_moved(uint64_t bytes, void *arg)
{
	struct copy *c = arg;

	progress_add(&c->bar, bytes);
}

static int
copy_put_file(struct copy *c, const char *from, int fd, const struct stat *st,
	      const char *to)
{
	struct web_ask q = {.method = "PUT",
			    .fd = fd,
			    .length = (uint64_t)st->st_size,
			    .moved = copy_moved,
			    .arg = c};
	struct web_answer a;
	char mode[24], *target;
	int r;

	(void)snprintf(mode, sizeof(mode), "&mode=%o",
		       (unsigned)st->st_mode & 0777);
	target = copy_target("write", to, mode);
	progress_start(&c->bar, from, (uint64_t)st->st_size);
	r = job_ask(c->p, &c->job, &q, target, &a);
	progress_end(&c->bar);
	web_answer_clear(&a);
	free(target);
	return r;
}

static int copy_put(struct copy *c, const char *from, const char *to);

static int
copy_put_dir(struct copy *c, const char *from, const char *to)
{
	const struct dirent *e;
	int r = copy_order(c, "POST", "mkdir", to);
	DIR *d = r == 0 ? opendir(from) : NULL;

	if (r == 0 && d == NULL) {
		say_error("%s: %s", from, strerror(errno));
		r = EXIT_FAILED;
	}
	while (r == 0 && (e = readdir(d)) != NULL) {
		char *a, *b;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		a = copy_join(from, e->d_name);
		b = copy_join(to, e->d_name);
		r = copy_put(c, a, b);
		free(a);
		free(b);
	}
	if (d != NULL)
		(void)closedir(d);
	return r;
}

static int
copy_put(struct copy *c, const char *from, const char *to)
{
	int fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK), r;
	struct stat st;

	if (fd == -1 || fstat(fd, &st) != 0) {
		say_error("%s: %s", from, strerror(errno));
		r = EXIT_FAILED;
	} else if (S_ISREG(st.st_mode)) {
		r = copy_put_file(c, from, fd, &st, to);
	} else if (!S_ISDIR(st.st_mode)) {
		say_error("%s: neither a file nor a directory: left out", from);
		r = c->depth > 0 ? 0 : EXIT_FAILED;
	} else if (!c->recursive) {
		say_error("%s: a directory: give --recursive", from);
		r = EXIT_USAGE;
	} else if (c->depth >= COPY_DEPTH) {
		say_error("%s: directories too deep", from);
		r = EXIT_FAILED;
	} else {
		c->depth++;
		r = copy_put_dir(c, from, to);
		c->depth--;
	}
	if (fd != -1)
		(void)close(fd);
	return r;
}

/* Standard input: its length must be known first. */
static int
copy_put_stdin(struct copy *c, const char *to)
{
	struct stat st = {.st_mode = 0644};
	uint64_t length;
	int fd = spool_stdin(&length), r;

	if (fd == -1) {
		say_error("standard input: %s", strerror(errno));
		return EXIT_FAILED;
	}
	st.st_size = (off_t)length;
	r = copy_put_file(c, "-", fd, &st, to);
	(void)close(fd);
	return r;
}

/* --- out --------------------------------------------------------------- */

static void
copy_data(struct strv piece, void *arg)
{
	struct copy *c = arg;

	if (!c->failed && fd_write_all(c->out, piece.p, piece.len) != 0)
		c->failed = true;
}

static int
copy_get_to(struct copy *c, const char *from, int fd)
{
	struct web_ask q = {
	    .method = "GET", .data = copy_data, .moved = copy_moved, .arg = c};
	char *target = copy_target("read", from, "");
	struct web_answer a;
	int r;

	c->out = fd;
	c->failed = false;
	progress_start(&c->bar, from, 0);
	r = job_ask(c->p, &c->job, &q, target, &a);
	progress_end(&c->bar);
	if (r == 0 && c->failed) {
		say_error("cannot write: %s", strerror(errno));
		r = EXIT_FAILED;
	}
	web_answer_clear(&a);
	free(target);
	return r;
}

static int
copy_get_file(struct copy *c, const char *from, const char *to)
{
	char *temp = xasprintf("%s.sbx-XXXXXX", to);
	int fd = mkostemp(temp, O_CLOEXEC), r;
	mode_t mask = umask(0);

	(void)umask(mask);
	if (fd == -1) {
		say_error("%s: %s", temp, strerror(errno));
		free(temp);
		return EXIT_FAILED;
	}
	r = copy_get_to(c, from, fd);
	(void)fchmod(fd, 0666 & ~mask);
	if (close(fd) != 0 && r == 0) {
		say_error("%s: %s", to, strerror(errno));
		r = EXIT_FAILED;
	}
	if (r == 0 && rename(temp, to) != 0) {
		say_error("%s: %s", to, strerror(errno));
		r = EXIT_FAILED;
	}
	if (r != 0)
		(void)unlink(temp);
	free(temp);
	return r;
}

static int copy_get(struct copy *c, const char *from, const char *to, int type);

static int
copy_get_entry(struct copy *c, const struct json *e, const char *to)
{
	const char *name = job_text(e, "name");
	char *path;
	int r;

	/* What a sandbox says its files are called is not a path here. */
	if (*name == '\0' || strchr(name, '/') != NULL ||
	    strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		say_error("%s: a name that cannot be: left out", name);
		return 0;
	}
	path = copy_join(to, name);
	r = copy_get(c, job_text(e, "path"), path, job_text(e, "type")[0]);
	free(path);
	return r;
}

static int
copy_get_dir(struct copy *c, const char *from, const char *to)
{
	char *target = copy_target("list", from, "");
	struct web_ask q = {.method = "GET"};
	const struct json *it = NULL;
	struct json_doc *doc = NULL;
	struct web_answer a;
	int r;

	if (mkdir(to, 0777) != 0 && errno != EEXIST) {
		say_error("%s: %s", to, strerror(errno));
		free(target);
		return EXIT_FAILED;
	}
	r = job_ask(c->p, &c->job, &q, target, &a);
	if (r == 0 &&
	    json_parse((struct strv){a.body.s, a.body.len}, &doc, NULL) != 0) {
		say_error("%s: not a listing", from);
		r = EXIT_FAILED;
	}
	web_answer_clear(&a);
	while (r == 0 &&
	       json_each(json_get(json_root(doc), "entries"), &it, NULL))
		r = copy_get_entry(c, it, to);
	json_doc_free(doc);
	free(target);
	return r;
}

static int
copy_get(struct copy *c, const char *from, const char *to, int type)
{
	int r;

	if (type == 'd' && !c->recursive) {
		say_error("%s: a directory: give --recursive", from);
		return EXIT_USAGE;
	}
	if (type == 's' && c->depth > 0) { /* a link in a tree */
		say_error("%s: a symbolic link: left out", from);
		return 0;
	}
	if (type != 'd')
		return copy_get_file(c, from, to);
	if (c->depth >= COPY_DEPTH) {
		say_error("%s: directories too deep", from);
		return EXIT_FAILED;
	}
	c->depth++;
	r = copy_get_dir(c, from, to);
	c->depth--;
	return r;
}

/* --- the command ------------------------------------------------------- */

/* "job:path": where the path begins; NULL: a file of ours. */
static char *
copy_remote(char *arg)
{
	char *colon = strchr(arg, ':'), *slash = strchr(arg, '/');

	if (colon == NULL || colon == arg || (slash != NULL && slash < colon))
		return NULL;
	*colon = '\0';
	return colon + 1;
}

static int
copy_in(struct copy *c, const char *from, const char *to)
{
	int type = copy_look(c, *to != '\0' ? to : ".");
	char *path;
	int r;

	if (type == -1)
		return EXIT_FAILED;
	if (strcmp(from, "-") == 0)
		return copy_put_stdin(c, to);
	path = type == 'd' || *to == '\0' || to[strlen(to) - 1] == '/'
		   ? copy_join(*to != '\0' ? to : ".", copy_name(from))
		   : xstrdup(to);
	r = copy_put(c, from, path);
	free(path);
	return r;
}

static int
copy_out(struct copy *c, const char *from, const char *to)
{
	int type = copy_look(c, *from != '\0' ? from : "."), r;
	struct stat st;
	char *path;

	if (type == 0)
		say_error("%s: no such file", from);
	if (type <= 0)
		return EXIT_FAILED;
	if (strcmp(to, "-") == 0)
		return copy_get_to(c, from, STDOUT_FILENO);
	path = stat(to, &st) == 0 && S_ISDIR(st.st_mode)
		   ? copy_join(to, copy_name(from))
		   : xstrdup(to);
	r = copy_get(c, from, path, type);
	free(path);
	return r;
}

int
cmd_cp(struct place *p, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"recursive", no_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
	struct copy c = {.p = p};
	char *from, *to;
	int o, r;

	while ((o = getopt_long(argc, argv, "r", longs, NULL)) != -1) {
		if (o != 'r')
			return cmd_usage("cp");
		c.recursive = true;
	}
	if (argc - optind != 2)
		return cmd_usage("cp");
	from = copy_remote(argv[optind]);
	to = copy_remote(argv[optind + 1]);
	if ((from == NULL) == (to == NULL)) {
		say_error("one of the two is JOB:PATH, the other a file here");
		return EXIT_USAGE;
	}
	if ((r = place_open(p)) != 0)
		return r;
	r = job_find(p, argv[from != NULL ? optind : optind + 1], &c.job);
	if (r == 0 && (r = job_reach(p, &c.job)) == 0)
		r = from != NULL ? copy_out(&c, from, argv[optind + 1])
				 : copy_in(&c, argv[optind], to);
	job_clear(&c.job);
	return r;
}
