/* SPDX-License-Identifier: Apache-2.0 */
/* A channel and its local stream, both directions, until both have ended. */
#include "config.h"

#include "tunnel/chan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/addr.h"
#include "tunnel/session_int.h"
#include "tunnel/spec.h"

#define CHAN_LINGER_MS 2000

static const struct stream_cbs chan_stream_cbs;

struct chan *
chan_new(struct session *s)
{
	struct chan *c = xcalloc(1, sizeof(*c));

	c->s = s;
	c->fd = -1;
	TAILQ_INSERT_TAIL(&s->chans, c, all);
	s->nchans++;
	return c;
}

static void
chan_destroy(void *arg)
{
	struct chan *c = arg;

	free(c->open);
	free(c->message);
	free(c);
}

/* Out of every list; the memory goes after the batch. */
static void
chan_drop(struct chan *c)
{
	struct session *s = c->s;

	if (c->state == CHAN_QUEUED) {
		TAILQ_REMOVE(&s->opening, c, link);
		s->nopening--;
	} else if (c->state == CHAN_CLOSING) {
		TAILQ_REMOVE(&s->closing, c, link);
	} else if (c->writing) {
		TAILQ_REMOVE(&s->writing, c, link);
	}
	c->writing = false;
	c->state = CHAN_DEAD;
	TAILQ_REMOVE(&s->chans, c, all);
	s->nchans--;
	loop_defer_free(s->loop, c, chan_destroy);
}

static void
chan_tell_gone(struct chan *c)
{
	void (*fn)(void *) = c->gone;

	c->gone = NULL;
	if (fn != NULL)
		fn(c->gone_arg);
}

void
chan_on_gone(struct chan *c, void (*fn)(void *arg), void *arg)
{
	c->gone = fn;
	c->gone_arg = arg;
}

/* The local side has ended; what is left is to close the channel. */
static void
chan_finish(struct chan *c)
{
	if (c->st != NULL)
		stream_close(c->st);
	c->st = NULL;
	if (c->writing)
		TAILQ_REMOVE(&c->s->writing, c, link);
	c->writing = c->blocked = false;
	c->state = CHAN_CLOSING;
	TAILQ_INSERT_TAIL(&c->s->closing, c, link);
	session_kick(c->s);
}

bool
chan_reap(struct chan *c)
{
	int rc = libssh2_channel_free(c->ssh);

	if (rc == LIBSSH2_ERROR_EAGAIN)
		return false;
	c->ssh = NULL;
	(void)session_fatal(c->s, rc);
	chan_drop(c);
	return true;
}

void
chan_abort(struct chan *c)
{
	/* What ends short must not look whole: a reset, unless the far side
	 * had ended. */
	fd_close(&c->fd);
	if (c->st != NULL && c->eof_seen)
		stream_finish(c->st, CHAN_LINGER_MS);
	else if (c->st != NULL)
		stream_reset(c->st);
	c->st = NULL;
	chan_tell_gone(c);
	chan_drop(c);
}

/* Both directions are over and all is written? */
static void
chan_check(struct chan *c)
{
	if (c->state == CHAN_OPEN && c->eof_sent && c->eof_seen &&
	    stream_flushed(c->st))
		chan_finish(c);
}

/* --- far to local ------------------------------------------------------- */

/* The far side sent its end. If it even closed the channel there is nobody to
 * take what we still have. */
static void
chan_far_end(struct chan *c)
{
	struct stream *st = c->st;

	if (!c->eof_seen) {
		c->eof_seen = true;
		stream_shutdown(st);
	}
	if (!c->eof_sent && libssh2_channel_wait_closed(c->ssh) == 0) {
		c->st = NULL;
		stream_finish(st, CHAN_LINGER_MS);
		chan_finish(c);
		return;
	}
	chan_check(c);
}

void
chan_pull(struct chan *c)
{
	struct bufq *out;
	size_t room, got = 0;
	ssize_t n = 0;
	char *p;

	if (c->state != CHAN_OPEN)
		return;
	if (c->eof_seen) {
		chan_far_end(c);
		return;
	}
	out = stream_output(c->st);
	while (!(c->held = stream_over_high(c->st))) {
		p = bufq_reserve(out, 4096, &room);
		n = libssh2_channel_read(c->ssh, p, room);
		bufq_commit(out, n > 0 ? (size_t)n : 0);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	c->bytes_in += got;
	if (got > 0)
		stream_flush(c->st);
	if (n < 0 && session_fatal(c->s, (int)n))
		return;
	if (n == 0 && !c->held && libssh2_channel_eof(c->ssh))
		chan_far_end(c);
}

/* --- local to far ------------------------------------------------------- */

void
chan_want_write(struct chan *c)
{
	if (c->writing || c->state != CHAN_OPEN)
		return;
	c->blocked = false;
	c->writing = true;
	TAILQ_INSERT_TAIL(&c->s->writing, c, link);
}

/* 0: go on; else libssh2 takes no more for now. */
static int
chan_push_some(struct chan *c, struct bufq *in)
{
	size_t turn = CHAN_TURN;
	struct strv front;
	ssize_t n;

	while (in->len > 0 && turn > 0) {
		front = bufq_front(in);
		/* After EAGAIN libssh2 wants to see the same bytes again: they
		 * are still at the front. */
		n = libssh2_channel_write(c->ssh, front.p, front.len);
		if (n <= 0) {
			c->blocked = true;
			return n < 0 ? (int)n : LIBSSH2_ERROR_EAGAIN;
		}
		bufq_drain(in, (size_t)n);
		c->bytes_out += (uint64_t)n;
		turn -= (size_t)n < turn ? (size_t)n : turn;
	}
	return 0;
}

static void
chan_push_end(struct chan *c)
{
	int rc = libssh2_channel_send_eof(c->ssh);

	if (rc == LIBSSH2_ERROR_EAGAIN) {
		c->blocked = true;
		return;
	}
	c->eof_sent = true;
	if (!session_fatal(c->s, rc))
		chan_check(c);
}

void
chan_push(struct chan *c)
{
	struct bufq *in;
	int rc;

	if (c->state != CHAN_OPEN || c->eof_sent)
		return;
	in = stream_input(c->st);
	rc = chan_push_some(c, in);
	if (rc != 0 && rc != LIBSSH2_ERROR_EAGAIN) {
		c->blocked = false;
		if (!session_fatal(c->s, rc)) { /* the channel is closed */
			bufq_drain(in, in->len);
			c->eof_sent = true;
			chan_check(c);
		}
		return;
	}
	if (in->len > 0 && rc == 0)
		chan_want_write(c);
	else if (in->len == 0 && stream_eof(c->st))
		chan_push_end(c);
	if (c->st != NULL && !stream_eof(c->st))
		stream_resume(c->st);
}

/* --- the stream's callbacks --------------------------------------------- */

static void
chan_readable(struct stream *st, void *arg)
{
	struct chan *c = arg;

	(void)st;
	if (c->blocked || c->state != CHAN_OPEN)
		return;
	chan_want_write(c);
	session_kick(c->s);
}

static void
chan_drained(struct stream *st, void *arg)
{
	struct chan *c = arg;

	(void)st;
	if (c->state != CHAN_OPEN)
		return;
	if (c->held) {
		chan_pull(c);
		session_kick(c->s); /* a window adjust may be queued */
	} else {
		chan_check(c);
	}
}

static void
chan_stream_error(struct stream *st, int err, void *arg)
{
	struct chan *c = arg;

	(void)st;
	(void)err;
	if (c->state == CHAN_OPEN)
		chan_finish(c);
}

static const struct stream_cbs chan_stream_cbs = {
    .readable = chan_readable,
    .drained = chan_drained,
    .eof = chan_readable,
    .error = chan_stream_error,
};

/* --- beginnings --------------------------------------------------------- */

static void
put_u32(struct strbuf *b, uint32_t v)
{
	char raw[4] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8),
		       (char)v};

	strbuf_add(b, raw, sizeof(raw));
}

static void
put_string(struct strbuf *b, const char *s)
{
	put_u32(b, (uint32_t)strlen(s));
	strbuf_adds(b, s);
}

static void
chan_message(struct chan *c, const struct spec_end *target,
	     const struct addr *peer)
{
	char ip[ADDR_TEXT_MAX] = "127.0.0.1";
	struct strbuf b = {0};
	uint16_t port = 0;

	if (target->path != NULL) {
		c->streamlocal = true;
		put_string(&b, target->path);
		put_string(&b, "");
		put_u32(&b, 0);
	} else {
		if (peer != NULL && !addr_is_unix(peer)) {
			(void)addr_ip_text(peer, ip);
			port = addr_port(peer);
		}
		put_string(&b, target->host);
		put_u32(&b, target->port);
		put_string(&b, ip);
		put_u32(&b, port);
	}
	c->message_len = b.len;
	c->message = strbuf_take(&b);
}

static void
chan_join(struct chan *c, int fd)
{
	c->st = stream_take_fd(c->s->loop, fd, &chan_stream_cbs, c);
	stream_set_high(c->st, CHAN_HIGH);
}

void
chan_open(struct session *s, const struct spec_end *target, int fd,
	  const struct addr *peer)
{
	struct chan *c;

	if (s->nchans >= CHANS_MAX) {
		fd_close(&fd);
		return;
	}
	c = chan_new(s);
	chan_message(c, target, peer);
	c->fd = fd;
	c->target = target;
	c->state = CHAN_QUEUED;
	TAILQ_INSERT_TAIL(&s->opening, c, link);
	s->nopening++;
	session_kick(s);
}

void
chan_opened(struct chan *c, LIBSSH2_CHANNEL *ssh)
{
	c->ssh = ssh;
	c->state = CHAN_OPEN;
	chan_join(c, c->fd);
	c->fd = -1;
}

void
chan_failed(struct chan *c)
{
	char *msg = NULL;

	libssh2_session_last_error(c->s->ssh, &msg, NULL, 0);
	log_debug("channel.refused", "why=%s",
		  log_esc(strv_of(msg != NULL ? msg : "?")));
	fd_close(&c->fd);
	c->state = CHAN_DEAD; /* it is off the opening queue already */
	chan_drop(c);
}

int
chan_unqueue(struct chan *c)
{
	int fd = c->fd;

	c->fd = -1;
	chan_drop(c);
	return fd;
}

void
chan_attach(struct chan *c, int fd)
{
	assert(c->state == CHAN_ACCEPTED);
	c->gone = NULL;
	chan_join(c, fd);
	stream_tune_tcp(c->st);
	c->state = CHAN_OPEN;
	chan_pull(c);
	chan_want_write(c);
	session_kick(c->s);
}

void
chan_refuse(struct chan *c)
{
	c->gone = NULL;
	chan_finish(c);
}
