/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a call; see the header. */
#include "config.h"

#include "gateway/cwcall.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/cwsvc_int.h"

#define BUF_KEEP 65536
#define RETRY_MS 1000 /* what is out of reach is asked again after that */

/* --- answers ----------------------------------------------------------- */

void
cwcall_set_cbs(struct cwcall *c, const struct cwcall_cbs *cbs, void *arg)
{
	c->cbs = cbs;
	c->arg = arg;
}

struct cwout *
cwcall_reply(struct cwcall *c)
{
	strbuf_reset(&c->buf);
	cwout_begin(&c->out, c->codec, c->method->out, &c->buf);
	return &c->out;
}

void
cwcall_send(struct cwcall *c)
{
	cwout_end(&c->out);
	if (!c->ended)
		c->ops->send(c, (struct strv){c->buf.s, c->buf.len});
	if (c->buf.cap > BUF_KEEP)
		strbuf_clear(&c->buf);
}

static void
finish(struct cwcall *c, const struct cwerr *e)
{
	if (c->ended)
		return;
	c->ended = true;
	c->code = e->code;
	timer_stop(&c->timer);
	c->ops->end(c, e);
	/* Not when the client has taken it: it may take its time. */
	task_post(c->loop, &c->gone);
}

void
cwcall_end(struct cwcall *c)
{
	static const struct cwerr ok = {.code = CW_OK};

	finish(c, &ok);
}

void
cwcall_answer(struct cwcall *c)
{
	assert(!c->method->server_streams);
	cwcall_send(c);
	cwcall_end(c);
}

void
cwcall_fail_with(struct cwcall *c, const struct cwerr *e)
{
	finish(c, e);
}

void
cwcall_fail(struct cwcall *c, enum cwerr_code code, const char *reason,
	    const char *fmt, ...)
{
	struct cwerr e = {.code = code,
			  .reason = reason,
			  .retry_ms = code == CW_UNAVAILABLE ? RETRY_MS : 0};
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	e.message = text;
	finish(c, &e);
}

void
cwcall_bad_field(struct cwcall *c, const char *field, const char *fmt, ...)
{
	struct cwerr e = {.code = CW_INVALID_ARGUMENT,
			  .reason = CWERR_INVALID_REQUEST,
			  .field = strv_of(field)};
	char text[1024];
	va_list ap;
	int n = snprintf(text, sizeof(text), "%.256s: ", field);

	va_start(ap, fmt);
	(void)vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	e.message = text;
	finish(c, &e);
}

void
cwcall_raw_begin(struct cwcall *c, const char *field, uint64_t size)
{
	struct strv before = STRV_NULL;

	if (c->out.depth > 0) {
		cwout_end(&c->out);
		before = (struct strv){c->buf.s, c->buf.len};
	}
	if (!c->ended)
		c->ops->raw_begin(c, before, field, size);
	if (before.len > 0)
		strbuf_clear(&c->buf);
}

void
cwcall_raw(struct cwcall *c, struct strv piece)
{
	if (!c->ended)
		c->ops->raw(c, piece);
}

bool
cwcall_over_high(const struct cwcall *c)
{
	return c->ops->over_high(c);
}

void
cwcall_pause(struct cwcall *c, bool on)
{
	if (!c->ended)
		c->ops->pause(c, on);
}

/* --- life -------------------------------------------------------------- */

static void
late_cb(void *arg)
{
	struct cwcall *c = arg;

	cwcall_fail(c, CW_DEADLINE_EXCEEDED, c->late,
		    "the time for this call is up");
}

/* The method is told, once, and what was kept for it ends. */
static void
gone_cb(void *arg)
{
	struct cwcall *c = arg;

	if (c->closed)
		return;
	c->closed = true;
	*c->prevp = c->next;
	if (c->next != NULL)
		c->next->prevp = c->prevp;
	c->svc->ncalls--;
	if (c->cbs != NULL && c->cbs->closed != NULL)
		c->cbs->closed(c, c->code, c->arg);
	cwmsg_free(c->req);
	cwmsg_free(c->late_req);
	c->req = c->late_req = NULL;
	if (c->buf.s != NULL)
		mem_secure_zero(c->buf.s, c->buf.cap);
	strbuf_clear(&c->buf);
}

void
cwcall_begin(struct cwcall *c, uint64_t timeout_ms)
{
	c->ns = c->who->ns[0];
	task_init(&c->gone, gone_cb, c);
	timer_init(&c->timer, c->loop, late_cb, c);
	if (timeout_ms != 0) {
		c->deadline_ms = loop_now_ms(c->loop) + timeout_ms;
		timer_set(&c->timer, timeout_ms);
	}
	c->next = c->svc->calls;
	c->prevp = &c->svc->calls;
	if (c->next != NULL)
		c->next->prevp = &c->next;
	c->svc->calls = c;
	c->svc->ncalls++;
}

void
cwcall_run(struct cwcall *c, struct cwmsg *req)
{
	c->req = req;
	if (c->ended)
		return;
	if (c->method->changes && !api_may_write(c->who, c->ns))
		cwcall_fail(c, CW_PERMISSION_DENIED, NULL,
			    "this token may only read");
	else
		c->method->fn(c);
}

void
cwcall_message(struct cwcall *c, struct cwmsg *m)
{
	if (!c->ended && c->cbs != NULL && c->cbs->message != NULL)
		c->cbs->message(c, m, c->arg);
	cwmsg_free(m);
}

void
cwcall_half_close(struct cwcall *c)
{
	if (!c->ended && c->cbs != NULL && c->cbs->half_closed != NULL)
		c->cbs->half_closed(c, c->arg);
}

void
cwcall_raw_in(struct cwcall *c, struct bufq *in, bool end)
{
	if (!c->ended && c->cbs != NULL && c->cbs->raw != NULL)
		c->cbs->raw(c, in, end, c->arg);
}

void
cwcall_writable(struct cwcall *c)
{
	if (!c->ended && c->cbs != NULL && c->cbs->writable != NULL)
		c->cbs->writable(c, c->arg);
}

void
cwcall_close(struct cwcall *c)
{
	if (!c->ended)
		c->code = CW_CANCELLED;
	c->ended = true;
	timer_clear(&c->timer);
	task_cancel(&c->gone);
	gone_cb(c);
}
