/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing heads, straight into a queue. The first thing that is not fit to be
 * sent is remembered in w->err, what follows is ignored, and nothing of the
 * head reaches the queue.
 */
#include "config.h"

#include "net/http1.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/http1_scan.h"

static void
begin(struct http_writer *w, struct bufq *q, size_t room)
{
	size_t got;

	w->q = q;
	w->err = 0;
	w->start = w->p = w->end = NULL;
	if (room > BUF_PULLUP_MAX) {
		w->err = E_LIMIT;
		return;
	}
	w->start = w->p = bufq_reserve(q, room, &got);
	w->end = w->start + got;
}

static inline bool
has_room(struct http_writer *w, size_t n)
{
	if (w->err == 0 && (size_t)(w->end - w->p) >= n)
		return true;
	if (w->err == 0)
		w->err = E_LIMIT;
	return false;
}

static inline void
put(struct http_writer *w, const char *p, size_t n)
{
	memcpy(w->p, p, n);
	w->p += n;
}

static inline bool
check_value(struct http_writer *w, struct strv v)
{
	if (http1_value_ok(v))
		return true;
	w->err = E_INVALID;
	return false;
}

void
http1_write_request(struct http_writer *w, struct bufq *q, size_t room,
		    struct strv method, struct strv target)
{
	begin(w, q, room);
	if (!has_room(w, method.len + target.len + 12))
		return;
	if (!http1_token_ok(method) || target.len == 0 ||
	    http1_skip_target(target.p, target.p + target.len) !=
		target.p + target.len) {
		w->err = E_INVALID;
		return;
	}
	put(w, method.p, method.len);
	*w->p++ = ' ';
	put(w, target.p, target.len);
	put(w, " HTTP/1.1\r\n", 11);
}

void
http1_write_status(struct http_writer *w, struct bufq *q, size_t room,
		   unsigned status, struct strv reason)
{
	char code[3];

	begin(w, q, room);
	if (status < 100 || status > 999) {
		w->err = E_INVALID;
		return;
	}
	if (!has_room(w, reason.len + 15) || !check_value(w, reason))
		return;
	code[0] = (char)('0' + status / 100);
	code[1] = (char)('0' + status / 10 % 10);
	code[2] = (char)('0' + status % 10);
	put(w, "HTTP/1.1 ", 9);
	put(w, code, 3);
	*w->p++ = ' ';
	if (reason.len > 0)
		put(w, reason.p, reason.len);
	put(w, "\r\n", 2);
}

/* "Name: ", when the name and a value of that length fit. */
static inline bool
put_name(struct http_writer *w, struct strv name, size_t value_len)
{
	if (value_len > BUF_PULLUP_MAX ||
	    !has_room(w, name.len + value_len + 4))
		return false;
	if (!http1_token_ok(name)) {
		w->err = E_INVALID;
		return false;
	}
	put(w, name.p, name.len);
	put(w, ": ", 2);
	return true;
}

void
http1_put(struct http_writer *w, struct strv name, struct strv value)
{
	if (w->err != 0 || !check_value(w, value) ||
	    !put_name(w, name, value.len))
		return;
	if (value.len > 0)
		put(w, value.p, value.len);
	put(w, "\r\n", 2);
}

void
http1_put_field(struct http_writer *w, const struct http_head *h, size_t i)
{
	const struct http_field *f = &h->fields[i];
	const char *name = h->base + f->name_off, *val = h->base + f->val_off;
	size_t n = (size_t)f->name_len + 2 + f->val_len;

	if (!has_room(w, n + 2))
		return;
	/* As nearly always, one blank after the colon: all in one piece. */
	if (f->val_off == f->name_off + f->name_len + 2 &&
	    name[f->name_len + 1] == ' ') {
		put(w, name, n);
	} else {
		put(w, name, f->name_len);
		put(w, ": ", 2);
		put(w, val, f->val_len);
	}
	put(w, "\r\n", 2);
}

void
http1_put_parts(struct http_writer *w, struct strv name,
		const struct strv *parts, size_t n)
{
	size_t i, len = 0;

	for (i = 0; i < n; i++) {
		if (w->err != 0 || !check_value(w, parts[i]))
			return;
		if (parts[i].len > BUF_PULLUP_MAX) {
			w->err = E_LIMIT;
			return;
		}
		len += parts[i].len;
	}
	if (!put_name(w, name, len))
		return;
	for (i = 0; i < n; i++)
		if (parts[i].len > 0)
			put(w, parts[i].p, parts[i].len);
	put(w, "\r\n", 2);
}

void
http1_put_f(struct http_writer *w, struct strv name, const char *fmt, ...)
{
	size_t room;
	va_list ap;
	int n;

	if (!put_name(w, name, 0))
		return;
	room = (size_t)(w->end - w->p);
	va_start(ap, fmt);
	n = vsnprintf(w->p, room, fmt, ap);
	va_end(ap);
	if (n < 0) {
		w->err = E_INVALID;
		return;
	}
	/* what was cut off, and the NUL's byte, leave room for CRLF */
	if (!has_room(w, (size_t)n + 2) ||
	    !check_value(w, (struct strv){w->p, (size_t)n}))
		return;
	w->p += n;
	put(w, "\r\n", 2);
}

void
http1_put_u64(struct http_writer *w, struct strv name, uint64_t v)
{
	char tmp[STR_U64_MAX];
	size_t n = str_put_u64(tmp, v);

	if (!put_name(w, name, n))
		return;
	put(w, tmp, n);
	put(w, "\r\n", 2);
}

int
http1_write_end(struct http_writer *w)
{
	if (has_room(w, 2)) {
		put(w, "\r\n", 2);
		bufq_commit(w->q, (size_t)(w->p - w->start));
		return 0;
	}
	if (w->start != NULL)
		bufq_commit(w->q, 0);
	return w->err;
}
