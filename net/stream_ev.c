/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moving half of a stream: what happens on its events. The rules that
 * keep it cheap: write first and arm EV_WRITE only when the descriptor took
 * less than was offered; never read again after a read that the layer below
 * knows to be the last (level-triggered epoll tells when there is more); and
 * leave EV_READ armed while paused until it fires in vain, since most pauses
 * are over by then.
 *
 * Callbacks are called from the two event callbacks and from the task, never
 * from inside a function that an owner calls. After each of them the stream
 * may be closed (state STREAM_CLOSED): its memory stays until the batch ends.
 */
#include "config.h"

#include "net/stream_int.h"

#include <assert.h>

#include <event2/event.h>

#include "base/err.h"

static bool
stream_closed(const struct stream *st)
{
	return st->state == STREAM_CLOSED;
}

static bool
stream_may_read(const struct stream *st)
{
	return !st->paused && !st->lent && !st->eof &&
	       st->in.len < st->in_limit;
}

/* --- arming ------------------------------------------------------------ */

static void
stream_arm(struct stream *st, struct event *ev)
{
	if (event_add(ev, NULL) == 0)
		return;
	/* A descriptor that epoll refuses (a file), or kernel memory. */
	if (st->err == 0)
		st->err = E_SYS;
	task_post(st->loop, &st->task);
}

void
stream_want_read(struct stream *st, bool on)
{
	if (st->rd_on == on)
		return;
	st->rd_on = on;
	if (on)
		stream_arm(st, &st->rd);
	else
		(void)event_del(&st->rd);
}

void
stream_want_write(struct stream *st, bool on)
{
	if (st->wr_on == on)
		return;
	st->wr_on = on;
	if (on)
		stream_arm(st, &st->wr);
	else
		(void)event_del(&st->wr);
}

/* True when the layer's last E_AGAIN waits for writability. */
static bool
stream_io_wants_write(struct stream *st, bool natural)
{
	if (st->io->wants_write == NULL)
		return natural;
	return st->io->wants_write(st->io_ctx);
}

bool
stream_io_pending(struct stream *st)
{
	return st->io->pending != NULL && st->io->pending(st->io_ctx);
}

/* --- telling ----------------------------------------------------------- */

/* Tells the end and the failure, each once. */
static void
stream_tell(struct stream *st)
{
	/* A new owner is told by the task, after what waits for it. */
	if (st->kick_read && !st->paused)
		return;
	if (st->eof && !st->eof_told && !st->paused) {
		st->eof_told = true;
		st->cbs->eof(st, st->arg);
		if (stream_closed(st))
			return;
	}
	if (st->err == 0 || st->err_told)
		return;
	st->err_told = true;
	st->state = STREAM_FAILED;
	stream_want_read(st, false);
	stream_want_write(st, false);
	bufq_clear(&st->out);
	st->cbs->error(st, st->err, st->arg);
}

static void
stream_tell_drained(struct stream *st)
{
	st->kick_drained = false;
	if (st->cbs->drained != NULL)
		st->cbs->drained(st, st->arg);
}

/* --- writing ----------------------------------------------------------- */

static void
stream_write_failed(struct stream *st, int err)
{
	/* The peer may have sent its reason before it went: read first, then
	 * tell (stream_last_words). */
	st->werr = err;
	bufq_clear(&st->out);
	stream_want_write(st, false);
	task_post(st->loop, &st->task);
}

/* The layer took less than everything: wait for what it waits for. */
static void
stream_write_blocked(struct stream *st)
{
	st->owed = true;
	st->wr_wants_rd = !stream_io_wants_write(st, true);
	if (st->wr_wants_rd) /* also while paused or at the limit */
		stream_want_read(st, true);
	stream_want_write(st, !st->wr_wants_rd || st->rd_wants_wr);
}

static void
stream_try_shutdown(struct stream *st)
{
	if (st->io->shutdown(st->io_ctx) == E_AGAIN) {
		stream_write_blocked(st);
		return;
	}
	/* A peer that is gone cannot be told; reading will say so. */
	st->shut_done = true;
}

/* Writes what the descriptor takes, arms or disarms EV_WRITE. */
static void
stream_write_out(struct stream *st)
{
	struct iovec iov[STREAM_IOV_MAX];
	size_t total;
	ssize_t r;
	int n;

	st->wr_wants_rd = false;
	while (st->out.len > 0) {
		n = bufq_iovec(&st->out, iov, STREAM_IOV_MAX, &total);
		r = st->io->writev(st->io_ctx, iov, n);
		if (r < 0 && r != E_AGAIN) {
			stream_write_failed(st, (int)r);
			return;
		}
		if (r > 0) {
			bufq_drain(&st->out, (size_t)r);
			st->bytes_out += (uint64_t)r;
			if ((size_t)r == total)
				continue;
		}
		stream_write_blocked(st);
		return;
	}
	if (st->shut && !st->shut_done) {
		stream_try_shutdown(st);
		if (!st->shut_done)
			return;
	}
	stream_want_write(st, st->rd_wants_wr);
}

void
stream_flush(struct stream *st)
{
	if (st->state == STREAM_HANDSHAKE) {
		st->owed = st->out.len > 0;
		st->over = stream_over_high(st);
		return;
	}
	if (st->state != STREAM_OPEN || st->werr != 0) {
		bufq_clear(&st->out);
		return;
	}
	if (stream_over_high(st))
		st->over = true;
	if (!st->wr_on && !st->wr_wants_rd)
		stream_write_out(st);
	if (st->over && st->werr == 0 && st->out.len <= st->high / 4) {
		st->over = false;
		st->kick_drained = true;
		task_post(st->loop, &st->task);
	}
}

void
stream_shutdown(struct stream *st)
{
	if (st->shut || stream_closed(st))
		return;
	st->shut = true;
	if (st->out.len > 0)
		stream_flush(st); /* shuts down when all is out */
	else if (st->state == STREAM_OPEN && st->werr == 0)
		stream_try_shutdown(st);
}

/* An event lets output go: tells the owner what it waits for. */
static void
stream_write_event(struct stream *st)
{
	stream_write_out(st);
	if (st->werr != 0)
		return;
	if ((st->over && st->out.len <= st->high / 4) ||
	    (st->owed && stream_flushed(st))) {
		st->over = false;
		st->owed = false;
		stream_tell_drained(st);
	}
}

/* --- reading ----------------------------------------------------------- */

bool
stream_read_in(struct stream *st)
{
	size_t got = 0, room;
	ssize_t r;
	bool more;
	char *p;

	st->rd_wants_wr = false;
	while (got < STREAM_READ_MAX && st->in.len < st->in_limit) {
		p = bufq_reserve(&st->in, STREAM_ROOM_MIN, &room);
		more = st->hint;
		r = st->io->read(st->io_ctx, p, room, &more);
		bufq_commit(&st->in, r > 0 ? (size_t)r : 0);
		st->hint = more && r != E_AGAIN;
		if (r > 0) {
			got += (size_t)r;
			st->bytes_in += (uint64_t)r;
			if (more)
				continue;
		} else if (r == E_AGAIN) {
			st->rd_wants_wr = stream_io_wants_write(st, false);
			if (st->rd_wants_wr)
				stream_want_write(st, true);
		} else if (r == E_EOF) {
			st->eof = true;
		} else {
			st->err = (int)r;
		}
		return false;
	}
	return true;
}

/* One turn of reading and telling. True when more may be there. */
static bool
stream_fill(struct stream *st)
{
	size_t before = st->in.len;
	bool more = stream_read_in(st);

	if (st->in.len > before)
		st->cbs->readable(st, st->arg);
	if (stream_closed(st))
		return false;
	/* What the layer below holds is announced by no event. */
	if (more && stream_may_read(st) && stream_io_pending(st)) {
		st->kick_fill = true;
		task_post(st->loop, &st->task);
	}
	stream_tell(st);
	return more && !stream_closed(st);
}

/* --- handshake --------------------------------------------------------- */

int
stream_handshake_step(struct stream *st)
{
	bool want_write = false;
	int r = st->io->handshake(st->io_ctx);

	if (r == E_AGAIN)
		want_write = stream_io_wants_write(st, false);
	else if (r != 0)
		st->err = r;
	if (r == 0) {
		st->state = STREAM_OPEN;
		st->hint = false; /* epoll will say what the kernel holds */
	}
	stream_want_write(st, want_write);
	return r;
}

/* The handshake is done: what waited for it goes its way. */
static void
stream_go(struct stream *st)
{
	if (st->ready != NULL)
		st->ready(st, st->arg);
	if (stream_closed(st))
		return;
	if (st->out.len > 0 || (st->shut && !st->shut_done))
		stream_write_event(st);
	/* The first request may have come with the last handshake bytes. */
	if (!stream_closed(st) && stream_may_read(st) && stream_io_pending(st))
		(void)stream_fill(st);
}

static void
stream_handshake(struct stream *st)
{
	int r = stream_handshake_step(st);

	if (r == 0)
		stream_go(st);
	else if (r != E_AGAIN)
		stream_tell(st);
}

/* --- events and the task ----------------------------------------------- */

static struct stream *
stream_from(void *arg)
{
	struct stream *st = arg;

	assert(st->magic == STREAM_MAGIC);
	return st;
}

void
stream_read_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream *st = stream_from(arg);

	(void)fd;
	(void)what;
	if (!st->rd_on) /* taken out while this event was under way */
		return;
	st->hint = true;
	if (st->state == STREAM_HANDSHAKE) {
		stream_handshake(st);
		return;
	}
	if (st->wr_wants_rd) {
		stream_write_event(st);
		if (stream_closed(st))
			return;
	}
	if (stream_may_read(st))
		(void)stream_fill(st);
	else
		stream_want_read(st, st->wr_wants_rd);
}

void
stream_write_cb(evutil_socket_t fd, short what, void *arg)
{
	struct stream *st = stream_from(arg);

	(void)fd;
	(void)what;
	if (!st->wr_on)
		return;
	if (st->state == STREAM_HANDSHAKE) {
		stream_handshake(st);
		return;
	}
	if (st->rd_wants_wr && stream_may_read(st))
		(void)stream_fill(st);
	if (!stream_closed(st) && st->state == STREAM_OPEN)
		stream_write_event(st);
}

/* Writing failed: what the peer had sent is delivered first, unless its owner
 * does not take it now. */
static void
stream_last_words(struct stream *st)
{
	st->hint = true;
	if (st->err == 0 && stream_may_read(st) && stream_fill(st)) {
		task_post(st->loop, &st->task);
		return;
	}
	if (stream_closed(st))
		return;
	if (st->err == 0)
		st->err = st->werr;
	stream_tell(st);
}

static void
stream_task_open(struct stream *st)
{
	if (st->kick_drained)
		stream_tell_drained(st);
	if (!stream_closed(st) && st->kick_read && !st->paused) {
		st->kick_read = false;
		if (st->in.len > 0)
			st->cbs->readable(st, st->arg);
		if (!stream_closed(st))
			stream_tell(st);
	}
	if (!stream_closed(st) && st->kick_fill) {
		st->kick_fill = false;
		if (stream_may_read(st))
			(void)stream_fill(st);
	}
}

void
stream_task_cb(void *arg)
{
	struct stream *st = stream_from(arg);

	if (st->kick_ready) {
		st->kick_ready = false;
		stream_go(st);
	}
	if (st->state == STREAM_OPEN)
		stream_task_open(st);
	if (stream_closed(st) || st->err_told)
		return;
	if (st->werr != 0)
		stream_last_words(st);
	else
		stream_tell(st);
}
