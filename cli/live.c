/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbx exec -i and -t: one connection with the command's frames. What we read
 * waits for the command, and the command for what we write.
 */
#include "config.h"

#include "cli/live.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "cli/status.h"
#include "cli/terminal.h"
#include "net/execwire.h"
#include "net/loop.h"
#include "net/stream.h"

#define LIVE_PIECE 16384

struct live {
	struct place *p;
	const char *name;
	struct stream *st;
	struct execwire wire;
	struct strbuf whole; /* of a frame that is not output */
	bool tty;
	struct event *in; /* NULL: it is read without being waited for */
	struct task more;
	bool in_over;
	unsigned signals;
	bool over;
	bool told; /* by the command's end */
	int status;
};

static void
live_end(struct live *l, int status)
{
	if (!l->over)
		l->status = status;
	l->over = true;
}

/* --- our input --------------------------------------------------------- */

static void
live_input_want(struct live *l)
{
	if (l->in_over || stream_over_high(l->st))
		return;
	if (l->in != NULL)
		(void)event_add(l->in, NULL);
	else
		task_post(l->p->loop, &l->more);
}

static void
live_input(struct live *l)
{
	char buf[LIVE_PIECE];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n > 0) {
		execwire_put(stream_output(l->st), EXECWIRE_STDIN,
			     (struct strv){buf, (size_t)n});
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		l->in_over = true;
		execwire_put(stream_output(l->st), EXECWIRE_CLOSE, STRV(""));
	}
	stream_flush(l->st);
	live_input_want(l);
}

static void
live_input_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	live_input(arg);
}

static void
live_more_cb(void *arg)
{
	live_input(arg);
}

/* epoll knows no files and no /dev/null, which never make anybody wait;
 * libevent would say so aloud. */
static bool
live_input_waits(void)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = epoll_create1(EPOLL_CLOEXEC);
	bool yes =
	    fd == -1 || epoll_ctl(fd, EPOLL_CTL_ADD, STDIN_FILENO, &ev) == 0;

	fd_close(&fd);
	return yes;
}

static void
live_input_start(struct live *l)
{
	task_init(&l->more, live_more_cb, l);
	if (live_input_waits())
		l->in = event_new(loop_base(l->p->loop), STDIN_FILENO, EV_READ,
				  live_input_cb, l);
	live_input_want(l);
}

/* --- frames ------------------------------------------------------------ */

static void
live_output(struct live *l, int fd, struct bufq *in)
{
	size_t left = execwire_here(&l->wire, in), n;
	struct strv v;

	for (; left > 0 && !l->over; left -= n) {
		v = bufq_front(in);
		n = v.len < left ? v.len : left;
		if (fd_write_all(fd, v.p, n) != 0) /* as if it had met us */
			live_end(l, 128 + SIGPIPE);
		bufq_drain(in, n);
		execwire_took(&l->wire, n);
	}
}

static void
live_refused(struct live *l, const struct json *v)
{
	const char *code = json_string(json_get(v, "code"));
	const char *text = json_string(json_get(v, "message"));

	terminal_restore();
	say_error("%s: %s", l->name, text != NULL ? text : "refused");
	live_end(l, code != NULL && (strcmp(code, "cannot_start") == 0 ||
				     strcmp(code, "bad_request") == 0)
			? EXIT_NO_START
			: EXIT_OURS);
}

static void
live_told(struct live *l)
{
	struct json_doc *doc = NULL;

	if (l->wire.type == EXECWIRE_ACCEPTED)
		return;
	l->told = true;
	if (json_parse((struct strv){l->whole.s, l->whole.len}, &doc, NULL) !=
	    0)
		live_end(l, EXIT_OURS);
	else if (l->wire.type == EXECWIRE_ERROR)
		live_refused(l, json_root(doc));
	else
		live_end(l, status_of_exit(json_root(doc)));
	json_doc_free(doc);
}

/* False: no more for now. */
static bool
live_frame(struct live *l, struct bufq *in)
{
	int r = execwire_open(&l->wire, in);

	if (r == E_AGAIN)
		return false;
	if (r != 0) {
		live_end(l, EXIT_OURS);
	} else if (l->wire.type == EXECWIRE_STDOUT ||
		   l->wire.type == EXECWIRE_STDERR) {
		live_output(l,
			    l->wire.type == EXECWIRE_STDOUT ? STDOUT_FILENO
							    : STDERR_FILENO,
			    in);
		if (l->wire.left == 0)
			execwire_took(&l->wire, 0);
		return !l->wire.open;
	} else if (execwire_whole(&l->wire, in, &l->whole) == 0) {
		live_told(l);
		strbuf_reset(&l->whole);
		return true;
	}
	return false;
}

static void
live_lost(struct live *l)
{
	if (l->over)
		return;
	terminal_restore();
	say_error("the connection was lost before the command ended");
	live_end(l, EXIT_OURS);
}

static void
live_readable_cb(struct stream *st, void *arg)
{
	struct live *l = arg;

	while (!l->over && live_frame(l, stream_input(st)))
		;
	stream_resume(st);
}

static void
live_drained_cb(struct stream *st, void *arg)
{
	(void)st;
	live_input_want(arg);
}

static void
live_eof_cb(struct stream *st, void *arg)
{
	(void)st;
	live_lost(arg);
}

static void
live_error_cb(struct stream *st, int err, void *arg)
{
	struct live *l = arg;

	(void)err;
	while (!l->over &&
	       (live_frame(l, stream_input(st)) ||
		(stream_salvage(st) && live_frame(l, stream_input(st)))))
		;
	live_lost(l);
}

static const struct stream_cbs live_cbs = {
    .readable = live_readable_cb,
    .drained = live_drained_cb,
    .eof = live_eof_cb,
    .error = live_error_cb,
};

/* --- signals ----------------------------------------------------------- */

static void
live_size_cb(int signo, void *arg)
{
	struct live *l = arg;
	uint16_t cols, rows;
	char b[4];

	(void)signo;
	if (!l->tty || l->st == NULL || l->over)
		return;
	terminal_size(&cols, &rows);
	b[0] = (char)(cols >> 8);
	b[1] = (char)cols;
	b[2] = (char)(rows >> 8);
	b[3] = (char)rows;
	execwire_put(stream_output(l->st), EXECWIRE_RESIZE,
		     (struct strv){b, sizeof(b)});
	stream_flush(l->st);
}

/* ^C is for the command, unless it is pressed again. The keys of a terminal do
 * not come this way: such a signal is for us, and to end us ends the command.
 */
static void
live_signal_cb(int signo, void *arg)
{
	struct live *l = arg;
	char number = (char)signo;

	if (l->st == NULL || l->over)
		return;
	if (l->tty || l->signals++ > 0 || signo == SIGHUP || signo == SIGTERM) {
		live_end(l, 128 + signo);
		return;
	}
	execwire_put(stream_output(l->st), EXECWIRE_SIGNAL,
		     (struct strv){&number, 1});
	stream_flush(l->st);
}

/* --- the command ------------------------------------------------------- */

static int
live_talk(struct live *l, struct strv init)
{
	if (l->tty && terminal_raw() != 0) {
		say_error("-t: standard input: %s", strerror(errno));
		return EXIT_USAGE;
	}
	stream_set_cbs(l->st, &live_cbs, l);
	execwire_put(stream_output(l->st), EXECWIRE_INIT, init);
	stream_flush(l->st);
	live_input_start(l);
	live_size_cb(SIGWINCH, l); /* it may have changed meanwhile */
	while (!l->over)
		loop_once(l->p->loop, true);
	terminal_restore();
	if (l->in != NULL)
		event_free(l->in);
	task_cancel(&l->more);
	strbuf_clear(&l->whole);
	return l->status;
}

int
live_run(struct place *p, struct job *j, struct strv init, bool tty)
{
	static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	struct live l = {.p = p, .name = j->id, .tty = tty};
	struct web_ask q = {
	    .method = "GET", .upgrade = "sbx-exec", .stream = &l.st};
	struct web_answer a;
	int r;

	if (init.len > EXECWIRE_INIT_MAX) {
		say_error("the command is longer than 1 MiB");
		return EXIT_USAGE;
	}
	l.wire.from_agent = true;
	r = job_ask(p, j, &q, "/exec/attach", &a);
	if (r == 0 && l.st == NULL)
		say_error("%s: its agent knows no live commands", j->id);
	web_answer_clear(&a);
	if (l.st == NULL)
		return EXIT_OURS;
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		loop_on_signal(p->loop, signals[i], live_signal_cb, &l);
	loop_on_signal(p->loop, SIGWINCH, live_size_cb, &l);
	r = live_talk(&l, init);
	if (l.told)
		stream_close(l.st);
	else /* an end of our side alone could be meant for stdin */
		stream_reset(l.st);
	l.st = NULL;
	return r;
}
