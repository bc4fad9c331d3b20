/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String views and strict numbers. Nothing here allocates or looks at the
 * locale, and no function reads a byte beyond a view's length.
 */
#include "config.h"

#include "base/str.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"

static char
ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

struct strv
strv_of(const char *s)
{
	return s != NULL ? (struct strv){s, strlen(s)} : STRV_NULL;
}

bool
strv_eq(struct strv a, struct strv b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

bool
strv_eq_nocase(struct strv a, struct strv b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
			return false;
	}
	return true;
}

bool
strv_starts(struct strv s, struct strv prefix)
{
	return s.len >= prefix.len &&
	       strv_eq((struct strv){s.p, prefix.len}, prefix);
}

bool
strv_ends(struct strv s, struct strv suffix)
{
	return s.len >= suffix.len &&
	       strv_eq(strv_from(s, s.len - suffix.len), suffix);
}

struct strv
strv_from(struct strv s, size_t off)
{
	assert(off <= s.len);
	if (off == 0)
		return s; /* also keeps NULL + 0 out */
	return (struct strv){s.p + off, s.len - off};
}

struct strv
strv_trim(struct strv s)
{
	while (s.len > 0 && is_blank(s.p[s.len - 1]))
		s.len--;
	while (s.len > 0 && is_blank(s.p[0])) {
		s.p++;
		s.len--;
	}
	return s;
}

bool
strv_cut(struct strv *rest, char sep, struct strv *out)
{
	ptrdiff_t at;

	if (rest->p == NULL)
		return false;
	at = strv_index(*rest, sep);
	if (at < 0) {
		*out = *rest;
		*rest = STRV_NULL;
		return true;
	}
	*out = (struct strv){rest->p, (size_t)at};
	*rest = strv_from(*rest, (size_t)at + 1);
	return true;
}

ptrdiff_t
strv_index(struct strv s, char c)
{
	const char *at = s.len != 0 ? memchr(s.p, c, s.len) : NULL;

	return at != NULL ? at - s.p : -1;
}

int
strv_parse_u64(struct strv s, uint64_t max, bool canonical, uint64_t *out)
{
	uint64_t v = 0;
	bool over = false;

	if (s.len == 0 || (canonical && s.len > 1 && s.p[0] == '0'))
		return E_INVALID;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return E_INVALID;
		/* Garbage after too many digits is still E_INVALID. */
		over = over || __builtin_mul_overflow(v, 10, &v) ||
		       __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v);
	}
	if (over || v > max)
		return E_LIMIT;
	*out = v;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static int
parse_with_unit(struct strv s, const struct unit *units, uint64_t *out)
{
	size_t digits = 0;
	uint64_t v;
	int r;

	while (digits < s.len && s.p[digits] >= '0' && s.p[digits] <= '9')
		digits++;
	r = strv_parse_u64((struct strv){s.p, digits}, UINT64_MAX, false, &v);
	if (r == E_INVALID)
		return r;
	s = strv_from(s, digits);
	for (; units->name != NULL; units++) {
		if (!strv_eq(s, strv_of(units->name)))
			continue;
		if (r != 0 || __builtin_mul_overflow(v, units->factor, &v))
			return E_LIMIT;
		*out = v;
		return 0;
	}
	return E_INVALID;
}

int
strv_parse_duration(struct strv s, uint64_t *out_ms)
{
	static const struct unit units[] = {
	    {"", 1000},     {"ms", 1},       {"s", 1000}, {"m", 60000},
	    {"h", 3600000}, {"d", 86400000}, {NULL, 0}};

	return parse_with_unit(s, units, out_ms);
}

int
strv_parse_size(struct strv s, uint64_t *out)
{
	static const struct unit units[] = {{"", 1},
					    {"K", UINT64_C(1) << 10},
					    {"M", UINT64_C(1) << 20},
					    {"G", UINT64_C(1) << 30},
					    {NULL, 0}};

	return parse_with_unit(s, units, out);
}

size_t
str_put_u64(char p[STR_U64_MAX], uint64_t v)
{
	char digits[STR_U64_MAX];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	memcpy(p, digits + at, sizeof(digits) - at);
	return sizeof(digits) - at;
}

int
str_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}
