/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cJSON takes more than JSON: any control byte for a blank, raw line ends and
 * broken UTF-8 in strings, numbers such as 01 or 1., a byte order mark, a
 * thousand levels. This scanner stands before it, without recursion and
 * without memory, so that only what every other reader understands in the
 * same way gets through.
 */
#include "config.h"

#include "base/jsonlex.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* cJSON copies a number into 64 bytes and splits a longer one. */
#define NUMBER_MAX 60

struct lex {
	const char *p, *end;
	const char *why;
	uint64_t objects; /* bit n: the container at depth n is an object */
	unsigned depth;
	unsigned values;
};

_Static_assert(JSONLEX_DEPTH_MAX <= 64, "struct lex has one bit for each");

static bool
lex_fail(struct lex *x, const char *why)
{
	if (x->why == NULL)
		x->why = why;
	return false;
}

/* Something else stands here, or nothing at all. */
static bool
lex_missing(struct lex *x, const char *why)
{
	return lex_fail(x, x->p == x->end ? "unexpected end" : why);
}

static void
lex_blanks(struct lex *x)
{
	while (x->p < x->end && (*x->p == ' ' || *x->p == '\n' ||
				 *x->p == '\r' || *x->p == '\t'))
		x->p++;
}

static bool
lex_accept(struct lex *x, char c)
{
	if (x->p == x->end || *x->p != c)
		return false;
	x->p++;
	return true;
}

static size_t
lex_digits(struct lex *x)
{
	const char *from = x->p;

	while (x->p < x->end && *x->p >= '0' && *x->p <= '9')
		x->p++;
	return (size_t)(x->p - from);
}

static bool
lex_number(struct lex *x)
{
	const char *from = x->p;

	(void)lex_accept(x, '-');
	if (lex_accept(x, '0')) {
		if (lex_digits(x) != 0)
			return lex_fail(x, "number with a leading zero");
	} else if (lex_digits(x) == 0) {
		return lex_fail(x, "not a JSON value");
	}
	if (lex_accept(x, '.') && lex_digits(x) == 0)
		return lex_fail(x, "number without digits after the point");
	if (lex_accept(x, 'e') || lex_accept(x, 'E')) {
		if (!lex_accept(x, '-'))
			(void)lex_accept(x, '+');
		if (lex_digits(x) == 0)
			return lex_fail(x, "number without an exponent");
	}
	if (x->p - from > NUMBER_MAX)
		return lex_fail(x, "number too long");
	return true;
}

static bool
lex_hex4(struct lex *x, unsigned *out)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++) {
		char c = x->p < x->end ? *x->p++ : '\0';

		v <<= 4;
		if (c >= '0' && c <= '9')
			v |= (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v |= (unsigned)(c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			v |= (unsigned)(c - 'A' + 10);
		else
			return lex_fail(x, "bad \\u escape");
	}
	*out = v;
	return true;
}

static bool
lex_escape(struct lex *x)
{
	unsigned v = 0;

	if (x->p == x->end)
		return lex_fail(x, "unterminated string");
	if (*x->p == '\0' || strchr("\"\\/bfnrtu", *x->p) == NULL)
		return lex_fail(x, "bad escape in string");
	if (*x->p++ != 'u')
		return true;
	if (!lex_hex4(x, &v))
		return false;
	if (v == 0)
		return lex_fail(x, "U+0000 in string");
	if (v >= 0xdc00 && v <= 0xdfff)
		return lex_fail(x, "lone surrogate in string");
	if (v < 0xd800 || v > 0xdbff)
		return true;
	if (!lex_accept(x, '\\') || !lex_accept(x, 'u'))
		return lex_fail(x, "lone surrogate in string");
	if (!lex_hex4(x, &v))
		return false;
	if (v < 0xdc00 || v > 0xdfff)
		return lex_fail(x, "lone surrogate in string");
	return true;
}

static bool
lex_string(struct lex *x)
{
	bool ok;

	if (!lex_accept(x, '"'))
		return lex_missing(x, "expected a string");
	while (x->p < x->end) {
		unsigned char c = (unsigned char)*x->p;

		if (c == '"') {
			x->p++;
			return true;
		}
		if (c < 0x20)
			return lex_fail(x, "control byte in string");
		if (c == '\\') {
			x->p++;
			if (!lex_escape(x))
				return false;
			continue;
		}
		x->p += utf8_step(x->p, (size_t)(x->end - x->p), &ok);
		if (!ok)
			return lex_fail(x, "not UTF-8");
	}
	return lex_fail(x, "unterminated string");
}

static bool
lex_word(struct lex *x, struct strv word)
{
	struct strv rest = {x->p, (size_t)(x->end - x->p)};

	if (!strv_starts(rest, word))
		return lex_fail(x, "not a JSON value");
	x->p += word.len;
	return true;
}

static bool
lex_in_object(const struct lex *x)
{
	return x->depth > 0 && (x->objects >> (x->depth - 1) & 1) != 0;
}

static bool
lex_open(struct lex *x, bool object)
{
	if (x->depth == JSONLEX_DEPTH_MAX)
		return lex_fail(x, "nested too deeply");
	if (object)
		x->objects |= UINT64_C(1) << x->depth;
	else
		x->objects &= ~(UINT64_C(1) << x->depth);
	x->depth++;
	return true;
}

/* A member's name and colon, when inside an object. */
static bool
lex_name(struct lex *x)
{
	if (!lex_in_object(x))
		return true;
	lex_blanks(x);
	if (!lex_string(x))
		return false;
	lex_blanks(x);
	return lex_accept(x, ':') || lex_missing(x, "expected a colon");
}

/* One scalar, or the beginning of a container up to its first value. *whole
 * says that a value is complete. */
static bool
lex_value(struct lex *x, bool *whole)
{
	lex_blanks(x);
	*whole = true;
	if (x->p == x->end)
		return lex_fail(x, "unexpected end");
	if (++x->values > JSONLEX_VALUES_MAX)
		return lex_fail(x, "too many values");
	switch (*x->p) {
	case '{':
	case '[': {
		bool object = *x->p++ == '{';

		if (!lex_open(x, object))
			return false;
		lex_blanks(x);
		if (lex_accept(x, object ? '}' : ']')) {
			x->depth--;
			return true;
		}
		*whole = false;
		return lex_name(x);
	}
	case '"':
		return lex_string(x);
	case 't':
		return lex_word(x, STRV("true"));
	case 'f':
		return lex_word(x, STRV("false"));
	case 'n':
		return lex_word(x, STRV("null"));
	default:
		return lex_number(x);
	}
}

/* After a complete value: closes what ends here, or moves to the next one. */
static bool
lex_after(struct lex *x)
{
	while (x->depth > 0) {
		lex_blanks(x);
		if (lex_accept(x, ','))
			return lex_name(x);
		if (!lex_accept(x, lex_in_object(x) ? '}' : ']'))
			return lex_missing(x, "expected a comma");
		x->depth--;
	}
	return true;
}

const char *
jsonlex_check(struct strv text)
{
	struct lex x = {.p = text.p};
	bool whole;

	if (text.len == 0)
		return "empty";
	x.end = text.p + text.len;
	do {
		if (!lex_value(&x, &whole))
			return x.why;
		if (whole && !lex_after(&x))
			return x.why;
	} while (x.depth > 0);
	lex_blanks(&x);
	return x.p == x.end ? NULL : "text after the JSON value";
}
