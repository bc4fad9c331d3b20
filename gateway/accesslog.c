/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access lines are gathered in one buffer and written after the batch, or when
 * it holds 32 KiB. What a file (or FIFO) of ours does not take at once is
 * dropped and counted: a full disk costs lines, never a stall. Standard output
 * is shared with whoever started us, so its blocking mode is left alone.
 */
#include "config.h"

#include "gateway/accesslog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"

#define FLUSH_AT 32768

struct access_log {
	struct loop *loop;
	enum access_format format;
	char *path;
	int fd; /* 1 for standard output, then not ours */
	struct strbuf buf;
	struct task flush;
	struct log_gate gate;
};

/* --- redaction --------------------------------------------------------- */

/* The parameter's name as the application will read it, in lower case; cut at
 * the end of out. */
static struct strv
plain_name(struct strv raw, char *out, size_t room)
{
	size_t i, n = 0;

	for (i = 0; i < raw.len && n < room; i++) {
		char c = raw.p[i];

		if (c == '%' && i + 2 < raw.len &&
		    str_hex_value(raw.p[i + 1]) >= 0 &&
		    str_hex_value(raw.p[i + 2]) >= 0) {
			c = (char)(str_hex_value(raw.p[i + 1]) * 16 +
				   str_hex_value(raw.p[i + 2]));
			i += 2;
		}
		if (c >= 'A' && c <= 'Z')
			c = (char)(c + ('a' - 'A'));
		out[n++] = c;
	}
	return (struct strv){out, n};
}

static bool
is_telling(struct strv raw)
{
	static const char *const parts[] = {
	    "token",  "secret",  "signature", "passw",  "credential",
	    "apikey", "api_key", "api-key",   "session"};
	static const char *const whole[] = {
	    "sig", "key", "auth", "jwt", "code", "pwd", "sid", "authorization"};
	char buf[128];
	struct strv name = plain_name(raw, buf, sizeof(buf));
	size_t i;

	for (i = 0; i < ARRAY_LEN(parts); i++) {
		if (memmem(name.p, name.len, parts[i], strlen(parts[i])))
			return true;
	}
	for (i = 0; i < ARRAY_LEN(whole); i++) {
		if (strv_eq(name, strv_of(whole[i])))
			return true;
	}
	/* what does not fit was not looked at */
	return raw.len >= sizeof(buf);
}

static void
redact_param(struct strv param, struct strbuf *out)
{
	ptrdiff_t eq = strv_index(param, '=');

	if (eq < 0 || !is_telling((struct strv){param.p, (size_t)eq})) {
		strbuf_addv(out, param);
		return;
	}
	strbuf_add(out, param.p, (size_t)eq + 1);
	strbuf_adds(out, "***");
}

void
accesslog_redact(struct strv target, struct strbuf *out)
{
	ptrdiff_t query = strv_index(target, '?');
	size_t i, from;

	if (query < 0) {
		strbuf_addv(out, target);
		return;
	}
	from = (size_t)query + 1;
	strbuf_add(out, target.p, from);
	for (i = from; i <= target.len; i++) {
		if (i < target.len && target.p[i] != '&' &&
		    target.p[i] != ';' && target.p[i] != '#')
			continue;
		redact_param((struct strv){target.p + from, i - from}, out);
		if (i < target.len)
			strbuf_addc(out, target.p[i]);
		from = i + 1;
	}
}

/* --- lines ------------------------------------------------------------- */

static void
add_u64(struct strbuf *b, uint64_t v)
{
	char digits[STR_U64_MAX];

	strbuf_add(b, digits, str_put_u64(digits, v));
}

/* Milliseconds with three decimals. */
static void
add_ms(struct strbuf *b, uint64_t us)
{
	char tail[4] = {'.', (char)('0' + us / 100 % 10),
			(char)('0' + us / 10 % 10), (char)('0' + us % 10)};

	add_u64(b, us / 1000);
	strbuf_add(b, tail, 4);
}

static struct strv
cut(struct strv v, size_t max)
{
	if (v.len > max)
		v.len = max;
	return v;
}

static void
json_str(struct strbuf *b, const char *key, struct strv v, size_t max)
{
	if (v.len == 0)
		return;
	strbuf_adds(b, key);
	strbuf_add_json(b, cut(v, max));
}

static void
json_redacted(struct strbuf *b, const char *key, struct strv v)
{
	struct strbuf plain = {0};

	if (v.len == 0)
		return;
	accesslog_redact(v, &plain);
	json_str(b, key, (struct strv){plain.s, plain.len}, 2048);
	strbuf_clear(&plain);
}

static void
json_ms(struct strbuf *b, const char *key, uint64_t us)
{
	if (us == ACCESS_NO_TIME)
		return;
	strbuf_adds(b, key);
	add_ms(b, us);
}

static void
json_u64(struct strbuf *b, const char *key, uint64_t v)
{
	strbuf_adds(b, key);
	add_u64(b, v);
}

static void
add_time(struct strbuf *b, int64_t unix_ms, bool iso)
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm;
	char text[64];
	size_t n;

	(void)gmtime_r(&s, &tm);
	/* Two literals, so that the compiler checks them. */
	if (iso)
		n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	else
		n = strftime(text, sizeof(text),
			     " [%d/%b/%Y:%H:%M:%S +0000] \"", &tm);
	strbuf_add(b, text, n);
}

static void
line_json(const struct access_entry *e, int64_t unix_ms, struct strbuf *b)
{
	char ms[5] = {'.', (char)('0' + unix_ms / 100 % 10),
		      (char)('0' + unix_ms / 10 % 10),
		      (char)('0' + unix_ms % 10), 'Z'};

	strbuf_adds(b, "{\"time\":\"");
	add_time(b, unix_ms, true);
	strbuf_add(b, ms, sizeof(ms));
	strbuf_addc(b, '"');
	json_str(b, ",\"id\":", e->id, 128);
	json_str(b, ",\"peer\":", e->peer, 128);
	json_str(b, ",\"user\":", e->user, 128);
	json_str(b, ",\"method\":", e->method, 32);
	json_redacted(b, ",\"target\":", e->target);
	json_str(b, ",\"proto\":", e->proto, 16);
	json_str(b, ",\"host\":", e->host, 256);
	json_u64(b, ",\"status\":", e->status);
	if (e->code != NULL)
		json_str(b, ",\"code\":", strv_of(e->code), 64);
	json_str(b, ",\"close\":", strv_of(e->close), 64);
	json_str(b, ",\"sandbox\":", e->sandbox, 64);
	if (e->port != 0)
		json_u64(b, ",\"port\":", e->port);
	json_str(b, ",\"upstream\":", e->upstream, 256);
	strbuf_adds(b, e->tls ? ",\"tls\":true" : ",\"tls\":false");
	if (e->tunnel)
		strbuf_adds(b, ",\"tunnel\":true");
	if (e->reused)
		strbuf_adds(b, ",\"reused\":true");
	if (e->retried)
		strbuf_adds(b, ",\"retried\":true");
	json_u64(b, ",\"in\":", e->bytes_in);
	json_u64(b, ",\"out\":", e->bytes_out);
	json_ms(b, ",\"queue_ms\":", e->queue_us);
	json_ms(b, ",\"connect_ms\":", e->connect_us);
	json_ms(b, ",\"first_ms\":", e->first_us);
	json_ms(b, ",\"total_ms\":", e->total_us);
	json_redacted(b, ",\"referer\":", e->referer);
	json_str(b, ",\"agent\":", e->agent, 256);
	strbuf_adds(b, "}\n");
}

/* Quotes, backslashes and what is not printable ASCII as \xNN. */
static void
add_quoted(struct strbuf *b, struct strv v, size_t max)
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	v = cut(v, max);
	for (i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.p[i];
		char esc[4] = {'\\', 'x', digits[c >> 4], digits[c & 15]};

		if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
			strbuf_addc(b, (char)c);
		else
			strbuf_add(b, esc, 4);
	}
}

static void
add_quoted_redacted(struct strbuf *b, struct strv v)
{
	struct strbuf plain = {0};

	accesslog_redact(v, &plain);
	add_quoted(b, (struct strv){plain.s, plain.len}, 2048);
	strbuf_clear(&plain);
}

static void
or_dash(struct strbuf *b, struct strv v, size_t max)
{
	if (v.len == 0)
		strbuf_addc(b, '-');
	else
		add_quoted(b, v, max);
}

static void
plain_ms(struct strbuf *b, const char *key, uint64_t us)
{
	strbuf_adds(b, key);
	if (us == ACCESS_NO_TIME)
		strbuf_addc(b, '-');
	else
		add_ms(b, us);
}

static void
line_combined(const struct access_entry *e, int64_t unix_ms, struct strbuf *b)
{
	or_dash(b, e->peer, 128);
	strbuf_adds(b, " - ");
	or_dash(b, e->user, 128);
	add_time(b, unix_ms, false);
	or_dash(b, e->method, 32);
	strbuf_addc(b, ' ');
	add_quoted_redacted(b, e->target);
	strbuf_addc(b, ' ');
	or_dash(b, e->proto, 16);
	strbuf_adds(b, "\" ");
	add_u64(b, e->status);
	strbuf_addc(b, ' ');
	add_u64(b, e->bytes_out);
	strbuf_adds(b, " \"");
	if (e->referer.len == 0)
		strbuf_addc(b, '-');
	else
		add_quoted_redacted(b, e->referer);
	strbuf_adds(b, "\" \"");
	or_dash(b, e->agent, 256);
	strbuf_adds(b, "\" id=");
	or_dash(b, e->id, 128);
	strbuf_adds(b, " host=");
	or_dash(b, e->host, 256);
	strbuf_addf(b, " close=%s code=%s sandbox=", e->close,
		    e->code != NULL ? e->code : "-");
	or_dash(b, e->sandbox, 64);
	strbuf_addf(b, " port=%u upstream=", e->port);
	or_dash(b, e->upstream, 256);
	strbuf_addf(b, " in=%" PRIu64, e->bytes_in);
	plain_ms(b, " queue=", e->queue_us);
	plain_ms(b, " connect=", e->connect_us);
	plain_ms(b, " first=", e->first_us);
	plain_ms(b, " total=", e->total_us);
	strbuf_addc(b, '\n');
}

void
accesslog_format(enum access_format f, const struct access_entry *e,
		 int64_t unix_ms, struct strbuf *out)
{
	switch (f) {
	case ACCESS_OFF:
		break;
	case ACCESS_JSON:
		line_json(e, unix_ms, out);
		break;
	case ACCESS_COMBINED:
		line_combined(e, unix_ms, out);
		break;
	}
}

/* --- the file ---------------------------------------------------------- */

static void
dropped(struct access_log *a, int eno)
{
	unsigned held;

	if (log_gate_pass(&a->gate, 1, &held))
		log_warn("access.drop", "err=%s more=%u",
			 err_text(err_from_errno(eno)), held);
}

static void
flush_cb(void *arg)
{
	struct access_log *a = arg;
	size_t done = 0;

	while (done < a->buf.len) {
		ssize_t n = write(a->fd, a->buf.s + done, a->buf.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			dropped(a, errno);
			break;
		}
		done += (size_t)n;
	}
	strbuf_reset(&a->buf);
}

static int
open_file(const char *path, int *fd)
{
	int n = open(path,
		     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
			 O_NONBLOCK,
		     0640);

	if (n < 0)
		return err_from_errno(errno);
	*fd = n;
	return 0;
}

int
accesslog_open(struct loop *l, enum access_format f, const char *path,
	       struct access_log **out)
{
	struct access_log *a;
	int fd = STDOUT_FILENO, r;

	if (f != ACCESS_OFF && path != NULL && (r = open_file(path, &fd)) != 0)
		return r;
	a = xcalloc(1, sizeof(*a));
	a->loop = l;
	a->format = f;
	a->path = path != NULL ? xstrdup(path) : NULL;
	a->fd = fd;
	task_init(&a->flush, flush_cb, a);
	*out = a;
	return 0;
}

void
accesslog_free(struct access_log *a)
{
	if (a == NULL)
		return;
	task_cancel(&a->flush);
	flush_cb(a);
	if (a->fd != STDOUT_FILENO)
		(void)close(a->fd);
	free(a->path);
	strbuf_clear(&a->buf);
	free(a);
}

void
accesslog_reopen(struct access_log *a)
{
	int fd = -1, r;

	if (a->path == NULL || a->format == ACCESS_OFF)
		return;
	if ((r = open_file(a->path, &fd)) != 0) {
		log_warn("access.reopen", "path=%s err=%s", a->path,
			 err_text(r));
		return;
	}
	flush_cb(a);
	(void)close(a->fd);
	a->fd = fd;
}

bool
accesslog_on(const struct access_log *a)
{
	return a->format != ACCESS_OFF;
}

void
accesslog_write(struct access_log *a, const struct access_entry *e)
{
	struct timespec ts;

	if (a->format == ACCESS_OFF)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	accesslog_format(a->format, e,
			 (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000,
			 &a->buf);
	if (a->buf.len >= FLUSH_AT)
		flush_cb(a);
	else
		task_post(a->loop, &a->flush);
}
