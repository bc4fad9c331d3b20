/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "gateway/cwtime.h"

#include <time.h>

#include "base/err.h"

#define FIRST (-62135596800LL) /* 0001-01-01T00:00:00Z */
#define LAST  253402300799LL   /* 9999-12-31T23:59:59Z */

/* n digits at *s, which moves on. */
static int
take_digits(struct strv *s, unsigned n, unsigned *out)
{
	unsigned v = 0;

	if (s->len < n)
		return E_INVALID;
	for (unsigned i = 0; i < n; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return E_INVALID;
		v = 10 * v + (unsigned)(s->p[i] - '0');
	}
	*s = strv_from(*s, n);
	*out = v;
	return 0;
}

static int
take_char(struct strv *s, const char *one_of)
{
	for (; s->len > 0 && *one_of != '\0'; one_of++) {
		if (s->p[0] != *one_of)
			continue;
		*s = strv_from(*s, 1);
		return (unsigned char)*one_of;
	}
	return 0;
}

static int
take_fraction(struct strv *s, uint32_t *nanos)
{
	uint32_t unit = 1000000000;

	*nanos = 0;
	if (take_char(s, ".") == 0)
		return 0;
	while (s->len > 0 && s->p[0] >= '0' && s->p[0] <= '9') {
		unit /= 10;
		if (unit == 0)
			return E_INVALID;
		*nanos += unit * (uint32_t)(s->p[0] - '0');
		*s = strv_from(*s, 1);
	}
	return unit == 1000000000 ? E_INVALID : 0;
}

static int
take_zone(struct strv *s, int64_t *offset)
{
	int sign = take_char(s, "Zz+-");
	unsigned h, m;

	*offset = 0;
	if (sign == 'Z' || sign == 'z')
		return 0;
	if (sign == 0 || take_digits(s, 2, &h) != 0 || take_char(s, ":") == 0 ||
	    take_digits(s, 2, &m) != 0 || h > 23 || m > 59)
		return E_INVALID;
	*offset = (int64_t)(h * 3600 + m * 60) * (sign == '-' ? -1 : 1);
	return 0;
}

int
cwtime_parse(struct strv s, int64_t *seconds, uint32_t *nanos)
{
	unsigned y, mo, d, h, mi, sec;
	struct tm tm = {0}, back;
	uint32_t ns;
	int64_t offset;
	time_t t;

	if (take_digits(&s, 4, &y) != 0 || take_char(&s, "-") == 0 ||
	    take_digits(&s, 2, &mo) != 0 || take_char(&s, "-") == 0 ||
	    take_digits(&s, 2, &d) != 0 || take_char(&s, "Tt") == 0 ||
	    take_digits(&s, 2, &h) != 0 || take_char(&s, ":") == 0 ||
	    take_digits(&s, 2, &mi) != 0 || take_char(&s, ":") == 0 ||
	    take_digits(&s, 2, &sec) != 0 || take_fraction(&s, &ns) != 0 ||
	    take_zone(&s, &offset) != 0 || s.len != 0)
		return E_INVALID;
	if (y == 0 || mo == 0 || mo > 12 || d == 0 || d > 31 || h > 23 ||
	    mi > 59 || sec > 59)
		return E_INVALID;
	tm.tm_year = (int)y - 1900;
	tm.tm_mon = (int)mo - 1;
	tm.tm_mday = (int)d;
	tm.tm_hour = (int)h;
	tm.tm_min = (int)mi;
	tm.tm_sec = (int)sec;
	t = timegm(&tm);
	/* There is no 31st of February. */
	if (gmtime_r(&t, &back) == NULL || back.tm_mday != (int)d)
		return E_INVALID;
	if (t - offset < FIRST || t - offset > LAST)
		return E_INVALID;
	*seconds = t - offset;
	*nanos = ns;
	return 0;
}

void
cwtime_add(struct strbuf *b, int64_t seconds, uint32_t nanos)
{
	time_t t = seconds < FIRST ? FIRST : seconds > LAST ? LAST : seconds;
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	strbuf_addf(b, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900,
		    tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
		    tm.tm_sec);
	if (nanos % 1000000 == 0 && nanos != 0)
		strbuf_addf(b, ".%03u", nanos / 1000000);
	else if (nanos % 1000 == 0 && nanos != 0)
		strbuf_addf(b, ".%06u", nanos / 1000);
	else if (nanos != 0)
		strbuf_addf(b, ".%09u", nanos);
	strbuf_addc(b, 'Z');
}
