/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "gateway/cwquantity.h"

#include "base/err.h"

#define DIGITS_MAX 15

static const struct {
	const char *suffix;
	uint64_t times; /* in thousandths */
} units[] = {
    {"", 1000},
    {"m", 1},
    {"k", 1000000},
    {"M", 1000000000},
    {"G", 1000000000000},
    {"T", 1000000000000000},
    {"Ki", 1000ULL << 10},
    {"Mi", 1000ULL << 20},
    {"Gi", 1000ULL << 30},
    {"Ti", 1000ULL << 40},
};

/* Digits with at most one point among them: *v / *scale. */
static int
parse_number(struct strv *s, uint64_t *v, uint64_t *scale)
{
	bool point = false;
	size_t n = 0, i;

	*v = 0;
	*scale = 1;
	for (i = 0; i < s->len; i++) {
		char c = s->p[i];

		if (c == '.' && !point) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9')
			break;
		if (++n > DIGITS_MAX)
			return E_LIMIT;
		*v = 10 * *v + (uint64_t)(c - '0');
		if (point)
			*scale *= 10;
	}
	*s = strv_from(*s, i);
	return n > 0 ? 0 : E_INVALID;
}

/* s times `by` thousandths, rounded up. */
static int
parse(struct strv s, unsigned divide, uint64_t *out)
{
	unsigned __int128 n;
	uint64_t v, scale;
	int r;

	if ((r = parse_number(&s, &v, &scale)) != 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		unsigned __int128 by = (unsigned __int128)scale * divide;

		if (!strv_eq(s, strv_of(units[i].suffix)))
			continue;
		n = ((unsigned __int128)v * units[i].times + by - 1) / by;
		if (n > INT64_MAX)
			return E_LIMIT;
		*out = (uint64_t)n;
		return 0;
	}
	return E_INVALID;
}

int
cwquantity_milli(struct strv s, uint64_t *out)
{
	return parse(s, 1, out);
}

int
cwquantity_whole(struct strv s, uint64_t *out)
{
	return parse(s, 1000, out);
}

void
cwquantity_add_milli(struct strbuf *b, uint64_t milli)
{
	if (milli % 1000 == 0)
		strbuf_addf(b, "%llu", (unsigned long long)milli / 1000);
	else
		strbuf_addf(b, "%llum", (unsigned long long)milli);
}

void
cwquantity_add_bytes(struct strbuf *b, uint64_t bytes)
{
	static const char *const suffix[] = {"", "Ki", "Mi", "Gi", "Ti"};
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(suffix) && bytes != 0 && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	strbuf_addf(b, "%llu%s", (unsigned long long)bytes, suffix[i]);
}
