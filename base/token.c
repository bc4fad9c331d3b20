/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Randomness from the kernel, and comparisons whose running time says nothing
 * about where two values differ.
 */
#include "config.h"

#include "base/token.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

static const char hex_digits[] = "0123456789abcdef";

void
token_random(void *p, size_t n)
{
	unsigned char *at = p;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0) {
			if (errno == EINTR)
				continue;
			log_fatal("token.random", "errno=%d", errno);
		}
		at += got;
		n -= (size_t)got;
	}
}

void
token_hex(char *out, size_t nbytes)
{
	unsigned char chunk[32];

	*out = '\0';
	while (nbytes > 0) {
		size_t n = nbytes < sizeof(chunk) ? nbytes : sizeof(chunk);

		token_random(chunk, n);
		token_hex_encode(out, chunk, n);
		out += 2 * n;
		nbytes -= n;
	}
	mem_secure_zero(chunk, sizeof(chunk));
}

void
token_label(char *out, size_t n)
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char chunk[32];
	size_t done = 0;

	while (done < n) {
		token_random(chunk, sizeof(chunk));
		for (size_t i = 0; i < sizeof(chunk) && done < n; i++) {
			/* 252 = 7 * 36: above it a character would be likelier
			 * than the others. */
			if (chunk[i] < 252)
				out[done++] = alphabet[chunk[i] % 36];
		}
	}
	out[n] = '\0';
	mem_secure_zero(chunk, sizeof(chunk));
}

bool
token_equal_raw(const void *a, const void *b, size_t n)
{
	const volatile unsigned char *x = a, *y = b;
	unsigned char diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= x[i] ^ y[i];
	return diff == 0;
}

bool
token_equal(struct strv a, struct strv b)
{
	/* With another length b is compared with itself: as much work, and the
	 * answer is no all the same. */
	const char *against = a.len == b.len ? a.p : b.p;
	bool same = token_equal_raw(against, b.p, b.len);

	return same & (a.len == b.len);
}

bool
token_plausible(struct strv v, size_t max)
{
	if (v.len == 0 || v.len > max)
		return false;
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] <= ' ' || v.p[i] > '~' ||
		    strchr("\"',;", v.p[i]) != NULL)
			return false;
	}
	return true;
}

void
token_hex_encode(char *out, const void *p, size_t n)
{
	const unsigned char *in = p;

	for (size_t i = 0; i < n; i++) {
		*out++ = hex_digits[in[i] >> 4];
		*out++ = hex_digits[in[i] & 15];
	}
	*out = '\0';
}

int
token_hex_decode(struct strv hex, void *out, size_t n)
{
	unsigned char *to = out;

	if (hex.len / 2 != n || hex.len % 2 != 0)
		return E_INVALID;
	for (size_t i = 0; i < hex.len; i++) {
		if (str_hex_value(hex.p[i]) < 0)
			return E_INVALID; /* out is still untouched */
	}
	for (size_t i = 0; i < n; i++)
		to[i] = (unsigned char)(str_hex_value(hex.p[2 * i]) * 16 +
					str_hex_value(hex.p[2 * i + 1]));
	return 0;
}
