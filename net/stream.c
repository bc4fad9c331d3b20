/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One byte stream: its life, its settings, and the lingering end of one that
 * finishes on its own. Events are stream_ev.c's, descriptors stream_fd.c's.
 */
#include "config.h"

#include "net/stream_int.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include <event2/event.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#define STREAM_LIMIT    65536       /* default input limit and high mark */
#define STREAM_DROP_MAX (16U << 20) /* swallowed while finishing */

struct finish {
	struct loop_hook hook;
	struct timer timer;
	size_t dropped;
};

/* --- life -------------------------------------------------------------- */

struct stream *
stream_take_fd(struct loop *l, int fd, const struct stream_cbs *cbs, void *arg)
{
	struct stream *st = xcalloc(1, sizeof(*st));

	st->magic = STREAM_MAGIC;
	st->fd = fd;
	st->state = STREAM_OPEN;
	st->loop = l;
	st->cbs = cbs;
	st->arg = arg;
	st->io = &stream_io_fd;
	st->io_ctx = STREAM_FD_CTX(fd);
	st->in_limit = STREAM_LIMIT;
	st->high = STREAM_LIMIT;
	bufq_init(&st->in, loop_bufpool(l));
	bufq_init(&st->out, loop_bufpool(l));
	task_init(&st->task, stream_task_cb, st);
	if (event_assign(&st->rd, loop_base(l), fd, EV_READ | EV_PERSIST,
			 stream_read_cb, st) != 0 ||
	    event_assign(&st->wr, loop_base(l), fd, EV_WRITE | EV_PERSIST,
			 stream_write_cb, st) != 0)
		log_fatal("stream.new", "reason=\"cannot make events\"");
	stream_want_read(st, true);
	return st;
}

static void
stream_destroy(void *p)
{
	struct stream *st = p;

	bufq_clear(&st->in);
	bufq_clear(&st->out);
	st->magic = 0;
	free(st);
}

static void
finish_free(struct finish *f)
{
	if (f == NULL)
		return;
	timer_clear(&f->timer);
	loop_hook_del(&f->hook);
	free(f);
}

void
stream_close(struct stream *st)
{
	if (st == NULL || st->state == STREAM_CLOSED)
		return;
	st->state = STREAM_CLOSED;
	stream_want_read(st, false);
	stream_want_write(st, false);
	task_cancel(&st->task);
	finish_free(st->finish);
	st->finish = NULL;
	if (st->io->free != NULL)
		st->io->free(st->io_ctx);
	st->io = &stream_io_fd;
	st->io_ctx = STREAM_FD_CTX(-1);
	(void)close(st->fd);
	st->fd = -1;
	/* Not the queues: an owner may be reading in one just now. */
	loop_defer_free(st->loop, st, stream_destroy);
}

void
stream_reset(struct stream *st)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	if (st->state == STREAM_CLOSED)
		return;
	(void)setsockopt(st->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	stream_close(st);
}

void
stream_set_cbs(struct stream *st, const struct stream_cbs *cbs, void *arg)
{
	st->cbs = cbs;
	st->arg = arg;
	if (st->state == STREAM_CLOSED)
		return;
	st->eof_told = false;
	if (st->in.len > 0 || st->eof) {
		st->kick_read = true;
		task_post(st->loop, &st->task);
	}
}

static void
orphan_cb(struct stream *st, void *arg)
{
	(void)st;
	(void)arg;
}

static void
orphan_error_cb(struct stream *st, int err, void *arg)
{
	(void)st;
	(void)err;
	(void)arg;
}

static const struct stream_cbs orphan_cbs = {
    .readable = orphan_cb,
    .eof = orphan_cb,
    .error = orphan_error_cb,
};

void
stream_orphan(struct stream *st)
{
	stream_set_cbs(st, &orphan_cbs, NULL);
}

void
stream_pause(struct stream *st)
{
	st->paused = true;
}

void
stream_resume(struct stream *st)
{
	st->paused = false;
	if (st->state != STREAM_OPEN || st->werr != 0)
		return;
	if (st->kick_read || (st->eof && !st->eof_told))
		task_post(st->loop, &st->task);
	if (st->eof || st->lent || st->in.len >= st->in_limit)
		return;
	stream_want_read(st, true);
	if (stream_io_pending(st)) {
		st->kick_fill = true;
		task_post(st->loop, &st->task);
	}
}

int
stream_lend(struct stream *st)
{
	if (st->state != STREAM_OPEN || st->io != &stream_io_fd || st->lent ||
	    st->in.len > 0 || st->eof || st->err != 0 || st->werr != 0)
		return -1;
	st->lent = true;
	return st->fd;
}

void
stream_return(struct stream *st, uint64_t n)
{
	st->lent = false;
	st->bytes_in += n;
	stream_resume(st);
}

bool
stream_salvage(struct stream *st)
{
	size_t before = st->in.len;

	if (st->state != STREAM_FAILED || st->eof)
		return false;
	st->hint = true;
	(void)stream_read_in(st);
	stream_want_write(st, false);
	return st->in.len > before;
}

/* --- layers ------------------------------------------------------------ */

void
stream_set_io(struct stream *st, const struct stream_io *io, void *ctx)
{
	int r;

	assert(st->bytes_in == 0 && st->bytes_out == 0);
	st->io = io;
	st->io_ctx = ctx;
	if (io->handshake == NULL)
		return;
	st->state = STREAM_HANDSHAKE;
	if ((r = stream_handshake_step(st)) == E_AGAIN)
		return;
	st->kick_ready = r == 0;
	task_post(st->loop, &st->task);
}

const struct stream_io *
stream_take_io(struct stream *st, void **ctx)
{
	const struct stream_io *io = st->io;

	*ctx = st->io_ctx;
	st->io = &stream_io_fd;
	st->io_ctx = STREAM_FD_CTX(st->fd);
	return io;
}

void *
stream_io_ctx(struct stream *st, const struct stream_io *io)
{
	return st->io == io ? st->io_ctx : NULL;
}

void
stream_on_ready(struct stream *st, void (*fn)(struct stream *, void *))
{
	st->ready = fn;
}

bool
stream_ready(const struct stream *st)
{
	return st->state == STREAM_OPEN && !st->kick_ready;
}

/* --- finishing --------------------------------------------------------- */

static void
finish_readable_cb(struct stream *st, void *arg)
{
	struct finish *f = arg;

	f->dropped += st->in.len;
	bufq_clear(&st->in);
	if (f->dropped > STREAM_DROP_MAX)
		stream_close(st);
}

static void
finish_progress_cb(struct stream *st, void *arg)
{
	(void)arg;
	if (stream_flushed(st) && st->eof)
		stream_close(st);
}

static void
finish_error_cb(struct stream *st, int err, void *arg)
{
	(void)err;
	(void)arg;
	stream_close(st);
}

static void
finish_end_cb(void *arg)
{
	stream_close(arg);
}

static const struct stream_cbs finish_cbs = {
    .readable = finish_readable_cb,
    .drained = finish_progress_cb,
    .eof = finish_progress_cb,
    .error = finish_error_cb,
};

void
stream_finish(struct stream *st, uint64_t linger_ms)
{
	struct finish *f;

	if (st->state == STREAM_CLOSED || st->finish != NULL)
		return;
	stream_shutdown(st);
	if (st->state != STREAM_OPEN || st->werr != 0 || linger_ms == 0 ||
	    (stream_flushed(st) && st->eof)) {
		stream_close(st);
		return;
	}
	f = xcalloc(1, sizeof(*f));
	timer_init(&f->timer, st->loop, finish_end_cb, st);
	timer_set(&f->timer, linger_ms);
	loop_hook_add(st->loop, &f->hook, finish_end_cb, st);
	st->finish = f;
	st->lent = false; /* what both drop is nobody's */
	bufq_clear(&st->in);
	stream_set_cbs(st, &finish_cbs, f);
	stream_resume(st);
}

/* --- facts ------------------------------------------------------------- */

int
stream_fd(const struct stream *st)
{
	return st->fd;
}

struct loop *
stream_loop(const struct stream *st)
{
	return st->loop;
}

struct bufq *
stream_input(struct stream *st)
{
	return &st->in;
}

struct bufq *
stream_output(struct stream *st)
{
	return &st->out;
}

void
stream_set_input_limit(struct stream *st, size_t bytes)
{
	st->in_limit = bytes;
}

void
stream_set_high(struct stream *st, size_t bytes)
{
	st->high = bytes;
}

bool
stream_paused(const struct stream *st)
{
	return st->paused;
}

bool
stream_over_high(const struct stream *st)
{
	return st->out.len >= st->high;
}

bool
stream_shut(const struct stream *st)
{
	return st->shut;
}

bool
stream_flushed(const struct stream *st)
{
	return st->out.len == 0 && (!st->shut || st->shut_done);
}

bool
stream_eof(const struct stream *st)
{
	return st->eof;
}

const char *
stream_why(const struct stream *st)
{
	return st->io == NULL || st->io->why == NULL ? ""
						     : st->io->why(st->io_ctx);
}

bool
stream_eof_clean(const struct stream *st)
{
	return st->eof &&
	       (st->io->eof_clean == NULL || st->io->eof_clean(st->io_ctx));
}

uint64_t
stream_bytes_in(const struct stream *st)
{
	return st->bytes_in;
}

uint64_t
stream_bytes_out(const struct stream *st)
{
	return st->bytes_out;
}

void
stream_quickack(struct stream *st)
{
	int on = 1;

	if (st->not_tcp || st->fd == -1)
		return;
	if (setsockopt(st->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on)) != 0)
		st->not_tcp = true;
}
