/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log. A line is composed on the stack and leaves in one write(2), so
 * lines of several processes never mix; nothing is allocated, so that mem.c
 * can report its own end through here. A line that is too long is cut.
 */
#include "config.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/utf8.h"

#define LOG_TEXT_MAX 8192 /* of the formatted key=value part */
#define LOG_ESC_MAX  256
#define LOG_ESC_RING 8
/* JSON escapes make six bytes of one at worst; the rest is for the head. */
#define LOG_LINE_MAX (6 * LOG_TEXT_MAX + 2048)

static struct {
	enum log_level level;
	const char *program;
	int fd;
	bool json, time;
	char path[PATH_MAX]; /* "" is stderr */
	log_hook_cb hook;
	void *hook_arg;
} sink = {.level = LOG_INFO, .fd = STDERR_FILENO};

static const char *const level_names[] = {"error", "warn", "info", "debug",
					  "trace"};
static const char hex_digits[] = "0123456789abcdef";

/* A line under construction; what does not fit is dropped. */
struct line {
	size_t len;
	char s[LOG_LINE_MAX];
};

static void
line_add(struct line *l, const char *p, size_t n)
{
	size_t room = sizeof(l->s) - 2 - l->len; /* 2: the end of the line */

	if (n > room)
		n = room;
	memcpy(l->s + l->len, p, n);
	l->len += n;
}

static void
line_adds(struct line *l, const char *s)
{
	line_add(l, s, strlen(s));
}

static void
line_add_hex(struct line *l, const char *prefix, unsigned char c)
{
	line_adds(l, prefix);
	line_add(l, &hex_digits[c >> 4], 1);
	line_add(l, &hex_digits[c & 15], 1);
}

/* The text as it is, except for what would break the line or a terminal. */
static void
line_add_plain(struct line *l, struct strv v)
{
	size_t run = 0;

	for (size_t i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (c >= 0x20 && c != 0x7f)
			continue;
		line_add(l, v.p + run, i - run);
		line_add_hex(l, "\\x", c);
		run = i + 1;
	}
	line_add(l, v.p + run, v.len - run);
}

/* str.c could do this, but it allocates. */
static void
line_add_json(struct line *l, struct strv v)
{
	size_t step;
	bool ok;

	line_add(l, "\"", 1);
	for (size_t i = 0; i < v.len; i += step) {
		unsigned char c = (unsigned char)v.p[i];

		step = utf8_step(v.p + i, v.len - i, &ok);
		if (!ok)
			line_adds(l, "\xef\xbf\xbd");
		else if (c < 0x20 || c == 0x7f)
			line_add_hex(l, "\\u00", c);
		else {
			if (c == '"' || c == '\\')
				line_add(l, "\\", 1);
			line_add(l, v.p + i, step);
		}
	}
	line_add(l, "\"", 1);
}

static void
line_add_time(struct line *l)
{
	struct timespec now;
	struct tm tm;
	char s[40];
	size_t n;

	if (clock_gettime(CLOCK_REALTIME, &now) != 0 ||
	    gmtime_r(&now.tv_sec, &tm) == NULL)
		return;
	n = strftime(s, sizeof(s), "%Y-%m-%dT%H:%M:%S", &tm);
	line_add(l, s, n);
	snprintf(s, sizeof(s), ".%03dZ", (int)(now.tv_nsec / 1000000));
	line_adds(l, s);
}

/* --- key=value text into JSON members ----------------------------------- */

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A number that every JSON reader keeps exact: at most 15 digits. */
static bool
is_json_number(struct strv v)
{
	size_t i = 0, from;

	if (v.len > 15)
		return false;
	if (i < v.len && v.p[i] == '-')
		i++;
	from = i;
	while (i < v.len && is_digit(v.p[i]))
		i++;
	if (i == from || (i > from + 1 && v.p[from] == '0'))
		return false;
	if (i == v.len)
		return true;
	from = i + 1;
	if (v.p[i] != '.')
		return false;
	for (i = from; i < v.len && is_digit(v.p[i]); i++)
		;
	return i == v.len && i > from;
}

static int
hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes the quoting of log_esc() in place, from the byte after the opening
 * quote; *pos ends up behind the closing one. */
static struct strv
unquote(char *text, size_t len, size_t *pos)
{
	struct strv v = {text + *pos, 0};
	size_t to = *pos, i = *pos;

	while (i < len && text[i] != '"') {
		char c = text[i++];

		if (c == '\\' && i + 2 < len && text[i] == 'x' &&
		    hex_value(text[i + 1]) >= 0 &&
		    hex_value(text[i + 2]) >= 0) {
			c = (char)(hex_value(text[i + 1]) * 16 +
				   hex_value(text[i + 2]));
			i += 3;
		} else if (c == '\\' && i < len) {
			c = text[i++];
		}
		text[to++] = c;
	}
	v.len = to - *pos;
	*pos = i < len ? i + 1 : i;
	return v;
}

static struct strv
until_space(const char *text, size_t len, size_t *pos)
{
	size_t from = *pos;

	while (*pos < len && text[*pos] != ' ')
		(*pos)++;
	return (struct strv){text + from, *pos - from};
}

static void
json_add_key(struct line *l, struct strv key)
{
	static const char *const taken[] = {"time", "level", "program", "event",
					    "msg"};

	line_adds(l, ",");
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		if (key.len == strlen(taken[i]) &&
		    memcmp(key.p, taken[i], key.len) == 0) {
			line_adds(l, "\"_");
			line_add(l, key.p, key.len);
			line_adds(l, "\":");
			return;
		}
	}
	line_add_json(l, key);
	line_adds(l, ":");
}

/* Words without a key are gathered in the front of text, which has been read
 * by then, and become one member, "msg". */
static void
json_add_pairs(struct line *l, char *text, size_t len)
{
	size_t pos = 0, msg = 0;

	while (pos < len) {
		size_t from = pos;
		struct strv v;

		if (text[pos] == ' ') {
			pos++;
			continue;
		}
		while (pos < len && strchr(" =\"", text[pos]) == NULL)
			pos++;
		if (pos == from || pos == len || text[pos] != '=') {
			pos = from;
			v = until_space(text, len, &pos);
			if (msg > 0)
				text[msg++] = ' ';
			memmove(text + msg, v.p, v.len);
			msg += v.len;
			continue;
		}
		json_add_key(l, (struct strv){text + from, pos - from});
		pos++;
		if (pos < len && text[pos] == '"') {
			pos++;
			line_add_json(l, unquote(text, len, &pos));
			continue;
		}
		v = until_space(text, len, &pos);
		if (is_json_number(v))
			line_add(l, v.p, v.len);
		else
			line_add_json(l, v);
	}
	if (msg > 0) {
		line_adds(l, ",\"msg\":");
		line_add_json(l, (struct strv){text, msg});
	}
}

/* --- lines -------------------------------------------------------------- */

static void
compose_json(struct line *l, enum log_level level, const char *event,
	     char *text, size_t len)
{
	line_adds(l, "{");
	if (sink.time) {
		line_adds(l, "\"time\":\"");
		line_add_time(l);
		line_adds(l, "\",");
	}
	line_adds(l, "\"level\":\"");
	line_adds(l, level_names[level]);
	if (sink.program != NULL) {
		line_adds(l, "\",\"program\":");
		line_add_json(
		    l, (struct strv){sink.program, strlen(sink.program)});
		line_adds(l, ",\"event\":");
	} else {
		line_adds(l, "\",\"event\":");
	}
	line_add_json(l, (struct strv){event, strlen(event)});
	json_add_pairs(l, text, len);
	line_adds(l, "}");
}

static void
compose_text(struct line *l, enum log_level level, const char *event,
	     const char *text, size_t len)
{
	if (sink.time) {
		line_add_time(l);
		line_adds(l, " ");
	}
	if (sink.program != NULL) {
		line_adds(l, sink.program);
		line_adds(l, " ");
	}
	line_adds(l, level_names[level]);
	line_adds(l, " ");
	line_adds(l, event);
	if (len > 0)
		line_adds(l, " ");
	line_add_plain(l, (struct strv){text, len});
}

static void
line_write(struct line *l, enum log_level level)
{
	size_t done = 0;

	if (sink.hook != NULL) {
		l->s[l->len] = '\0';
		sink.hook(level, l->s, l->len, sink.hook_arg);
		return;
	}
	l->s[l->len++] = '\n';
	/* One write is the rule; a second follows only a short one. A log that
	 * cannot be written must not stop the service, so errors end it. */
	while (done < l->len) {
		ssize_t n = write(sink.fd, l->s + done, l->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
}

static void log_vemit(enum log_level level, const char *event, const char *fmt,
		      va_list ap) __attribute__((format(printf, 3, 0)));

static void
log_vemit(enum log_level level, const char *event, const char *fmt, va_list ap)
{
	char text[LOG_TEXT_MAX];
	struct line l;
	size_t len;
	int n;

	l.len = 0;
	n = vsnprintf(text, sizeof(text), fmt, ap);
	if (n < 0)
		n = 0;
	len = (size_t)n;
	if (len >= sizeof(text)) {
		len = sizeof(text) - 1;
		memcpy(text + len - 3, "...", 3);
	}
	if (sink.json)
		compose_json(&l, level, event, text, len);
	else
		compose_text(&l, level, event, text, len);
	line_write(&l, level);
}

void
log_emit(enum log_level l, const char *event, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!log_enabled(l))
		return;
	va_start(ap, fmt);
	log_vemit(l, event, fmt, ap);
	va_end(ap);
	errno = saved;
}

void
log_fatal(const char *event, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_vemit(LOG_ERROR, event, fmt, ap);
	va_end(ap);
	exit(1);
}

/* --- set-up ------------------------------------------------------------- */

static int
log_open(const char *path)
{
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY,
		    0640);
}

int
log_setup(const struct log_options *o)
{
	int fd = STDERR_FILENO;

	if (o->path != NULL) {
		if (strlen(o->path) >= sizeof(sink.path)) {
			errno = ENAMETOOLONG;
			return E_SYS;
		}
		fd = log_open(o->path);
		if (fd < 0)
			return E_SYS;
	}
	if (sink.fd != STDERR_FILENO)
		close(sink.fd);
	sink.fd = fd;
	snprintf(sink.path, sizeof(sink.path), "%s",
		 o->path != NULL ? o->path : "");
	sink.level = o->level;
	sink.program = o->program;
	sink.json = o->json;
	sink.time = o->time;
	return 0;
}

void
log_reopen(void)
{
	int fd;

	if (sink.path[0] == '\0')
		return;
	fd = log_open(sink.path);
	if (fd < 0) {
		log_error("log.reopen", "error=\"%s\"",
			  err_text(err_from_errno(errno)));
		return; /* better the old file than none */
	}
	close(sink.fd);
	sink.fd = fd;
}

void
log_set_hook(log_hook_cb cb, void *arg)
{
	sink.hook = cb;
	sink.hook_arg = arg;
}

bool
log_enabled(enum log_level l)
{
	return l <= sink.level;
}

int
log_level_parse(struct strv name, enum log_level *out)
{
	for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
		if (name.len == strlen(level_names[i]) &&
		    memcmp(name.p, level_names[i], name.len) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return E_INVALID;
}

/* --- what peers said ---------------------------------------------------- */

const char *
log_esc(struct strv v)
{
	/* Two quotes, the dots of a cut value and the NUL. */
	static _Thread_local char ring[LOG_ESC_RING][4 * LOG_ESC_MAX + 6];
	static _Thread_local unsigned turn;
	char *start = ring[turn++ % LOG_ESC_RING], *to = start;
	size_t n = v.len < LOG_ESC_MAX ? v.len : LOG_ESC_MAX;

	*to++ = '"';
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (c == '"' || c == '\\') {
			*to++ = '\\';
			*to++ = (char)c;
		} else if (c >= 0x20 && c < 0x7f) {
			*to++ = (char)c;
		} else {
			*to++ = '\\';
			*to++ = 'x';
			*to++ = hex_digits[c >> 4];
			*to++ = hex_digits[c & 15];
		}
	}
	if (n < v.len) {
		memcpy(to, "...", 3);
		to += 3;
	}
	*to++ = '"';
	*to = '\0';
	return start;
}

bool
log_gate_pass(struct log_gate *g, unsigned per_second, unsigned *suppressed)
{
	struct timespec now;

	if (suppressed != NULL)
		*suppressed = 0;
	if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0)
		return true;
	if (g->second != (int64_t)now.tv_sec) {
		g->second = (int64_t)now.tv_sec;
		g->count = 0;
	}
	if (g->count >= per_second) {
		g->suppressed++;
		return false;
	}
	g->count++;
	if (suppressed != NULL)
		*suppressed = g->suppressed;
	g->suppressed = 0;
	return true;
}
