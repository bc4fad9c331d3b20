/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outer half of snapshots. One is over when the process has ended and its
 * pipe is at its end; one that was canceled is kept until then, by the loop.
 */
#include "config.h"

#include "gateway/snaprun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/token.h"
#include "gateway/child.h"
#include "gateway/snapcmd.h"
#include "net/loop.h"

#define SAID_MAX 1024
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct snaprun {
	struct loop *loop;
	snaprun_done_cb done; /* NULL: canceled */
	void *arg;
	pid_t pid; /* 0: it has ended */
	int pidfd, report;
	struct event ended, readable;
	struct task task;
	struct loop_hook hook;
	struct snaptar_counts n;
	bool over; /* it said how it went */
	int err;
	char sha256[SNAPRUN_SHA_LEN + 1];
	char why[SAID_MAX], end[32];
	struct strbuf in;
};

static void
free_run(struct snaprun *x)
{
	task_cancel(&x->task);
	loop_hook_del(&x->hook);
	if (x->pidfd != -1)
		(void)event_del(&x->ended);
	fd_close(&x->pidfd);
	if (x->report != -1)
		(void)event_del(&x->readable);
	fd_close(&x->report);
	strbuf_clear(&x->in);
	loop_defer_free(x->loop, x, NULL);
}

/* The loop ends first. It dies with us, if not now. */
static void
hook_cb(void *arg)
{
	struct snaprun *x = arg;

	if (x->pid != 0)
		(void)kill(x->pid, SIGKILL);
	free_run(x);
}

static void
finish(void *arg)
{
	struct snaprun *x = arg;
	snaprun_done_cb done = x->done;

	if (!x->over) {
		x->err = E_SYS;
		(void)snprintf(x->why, sizeof(x->why),
			       "the process that copies ended (%s)", x->end);
	}
	if (done != NULL) {
		struct snaprun_end e = {
		    .err = x->err, .why = x->why, .n = x->n};

		memcpy(e.sha256, x->sha256, sizeof(e.sha256));
		done(&e, x->arg);
	}
	free_run(x);
}

static void
finish_if_over(struct snaprun *x)
{
	if (x->pid == 0 && x->report == -1)
		task_post(x->loop, &x->task);
}

/* --- what it says ------------------------------------------------------ */
/* n of them; *text is what follows. */
static bool
take_numbers(struct strv *text, uint64_t **v, size_t n)
{
	struct strv one;
	uint64_t got[4];

	for (size_t i = 0; i < n; i++)
		if (!strv_cut(text, ' ', &one) ||
		    strv_parse_u64(one, UINT64_MAX, true, &got[i]) != 0)
			return false;
	for (size_t i = 0; i < n; i++)
		*v[i] = got[i];
	return true;
}

static bool
take_sum(struct snaprun *x, struct strv hex)
{
	uint8_t sum[SNAPRUN_SHA_LEN / 2];

	if (token_hex_decode(hex, sum, sizeof(sum)) != 0)
		return false;
	token_hex_encode(x->sha256, sum, sizeof(sum));
	return true;
}

static void
take_line(struct snaprun *x, struct strv line)
{
	uint64_t *v[] = {&x->n.bytes, &x->n.entries, &x->n.changed,
			 &x->n.skipped};
	struct strv word, number;
	uint64_t err;

	if (!strv_cut(&line, ' ', &word) || x->over)
		return;
	if (strv_eq(word, STRV("p"))) {
		(void)take_numbers(&line, v, 2);
	} else if (strv_eq(word, STRV("ok"))) {
		x->over = take_numbers(&line, v, 4) && take_sum(x, line);
	} else if (strv_eq(word, STRV("error")) &&
		   strv_cut(&line, ' ', &number) &&
		   strv_starts(number, STRV("-")) &&
		   strv_parse_u64(strv_from(number, 1), 100, true, &err) == 0) {
		x->over = true;
		x->err = -(int)err;
		(void)snprintf(x->why, sizeof(x->why), "%.*s", STRV_ARG(line));
	}
}

static void
take_lines(struct snaprun *x)
{
	struct strv rest = {x->in.s, x->in.len}, line;
	ptrdiff_t at;
	size_t used = 0;

	while ((at = strv_index(rest, '\n')) >= 0) {
		line = (struct strv){rest.p, (size_t)at};
		take_line(x, line);
		rest = strv_from(rest, (size_t)at + 1);
		used += (size_t)at + 1;
	}
	memmove(x->in.s, x->in.s + used, x->in.len - used + 1);
	x->in.len -= used;
}

static void
readable_cb(evutil_socket_t fd, short what, void *arg)
{
	struct snaprun *x = arg;
	char buf[SAID_MAX];
	ssize_t n = read((int)fd, buf, sizeof(buf));

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && x->in.len < sizeof(buf)) {
		strbuf_add(&x->in, buf, (size_t)n);
		take_lines(x);
		return;
	}
	(void)event_del(&x->readable);
	fd_close(&x->report);
	finish_if_over(x);
}

static void
ended_cb(evutil_socket_t fd, short what, void *arg)
{
	struct snaprun *x = arg;
	siginfo_t si = {0};

	(void)what;
	if (waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG) == 0 &&
	    si.si_pid == 0)
		return;
	x->pid = 0;
	(void)snprintf(x->end, sizeof(x->end), "%s %d",
		       si.si_code == CLD_EXITED ? "status" : "signal",
		       si.si_status);
	(void)event_del(&x->ended);
	fd_close(&x->pidfd);
	finish_if_over(x);
}

/* --- start ------------------------------------------------------------- */
static int
spawn(struct snaprun *x, const struct snaprun_spec *s, int report)
{
	static char name[] = "sbx-gateway", word[] = SNAPCMD_CREATE;
	char number[4][24], *argv[8] = {name, word};
	char *env[] = {NULL};
	const uint64_t v[] = {s->uid, s->uids, s->max_bytes, s->max_entries};
	const int more[] = {s->tree_fd, report};
	char *found = s->program != NULL ? NULL : child_find("sbx-gateway");
	const struct child_spec cs = {.path =
					  found != NULL ? found : s->program,
				      .argv = argv,
				      .env = env,
				      .fd = s->archive_fd,
				      .more = more,
				      .nmore = ARRAY_LEN(more)};
	size_t n = 2;
	int eno;

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		(void)snprintf(number[i], sizeof(number[i]), "%llu",
			       (unsigned long long)v[i]);
		argv[n++] = number[i];
	}
	argv[n] = (char *)(uintptr_t)s->volume;
	eno = child_start(&cs, &x->pid);
	free(found);
	return eno;
}

static int
start(struct snaprun *x, const struct snaprun_spec *s)
{
	int fds[2], eno;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return errno;
	x->report = fds[0];
	(void)!fd_set_nonblock(fds[0]);
	(void)event_assign(&x->readable, loop_base(x->loop), fds[0],
			   EV_READ | EV_PERSIST, readable_cb, x);
	(void)event_add(&x->readable, NULL);
	eno = spawn(x, s, fds[1]);
	fd_close(&fds[1]);
	if (eno != 0)
		return eno;
	x->pidfd = (int)syscall(SYS_pidfd_open, x->pid, 0);
	if (x->pidfd == -1) {
		eno = errno;
		(void)kill(x->pid, SIGKILL);
		(void)waitpid(x->pid, NULL, 0);
		x->pid = 0;
		return eno;
	}
	(void)event_assign(&x->ended, loop_base(x->loop), x->pidfd,
			   EV_READ | EV_PERSIST, ended_cb, x);
	(void)event_add(&x->ended, NULL);
	return 0;
}

struct snaprun *
snaprun_start(struct loop *l, const struct snaprun_spec *s,
	      snaprun_done_cb done, void *arg)
{
	struct snaprun *x = xcalloc(1, sizeof(*x));
	int eno;

	x->loop = l;
	x->done = done;
	x->arg = arg;
	x->pidfd = x->report = -1;
	task_init(&x->task, finish, x);
	loop_hook_add(l, &x->hook, hook_cb, x);
	if ((eno = start(x, s)) != 0) {
		x->over = true;
		x->err = E_SYS;
		(void)snprintf(x->why, sizeof(x->why),
			       "the process that copies: %s", strerror(eno));
		task_post(l, &x->task);
	}
	return x;
}

const struct snaptar_counts *
snaprun_counts(const struct snaprun *x)
{
	return &x->n;
}

void
snaprun_cancel(struct snaprun *x)
{
	x->done = NULL;
	if (x->pid != 0)
		(void)kill(x->pid, SIGKILL);
}
