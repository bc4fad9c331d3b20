/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Character classes of HTTP/1.1 and the scanners over them, shared by the
 * parser, the writer and the chunk decoder. A scanner returns the first byte
 * that is not of its class, or end; it never reads at or beyond end.
 */
#ifndef SBX_NET_HTTP1_SCAN_H
#define SBX_NET_HTTP1_SCAN_H

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define HTTP1_TOKEN_CH  0x01 /* tchar (RFC 9110, 5.6.2) */
#define HTTP1_TARGET_CH 0x02 /* 0x21-0x7e but '#' */
#define HTTP1_VALUE_CH  0x04 /* HTAB, SP, VCHAR, obs-text */
#define HTTP1_HOST_CH   0x08 /* reg-name (RFC 3986, 3.2.2), ASCII only */

extern const uint8_t http1_class[256];

static inline const char *
http1_skip(const char *p, const char *end, uint8_t cls)
{
	while (p < end && (http1_class[(unsigned char)*p] & cls))
		p++;
	return p;
}

static inline const char *
http1_skip_token(const char *p, const char *end)
{
	return http1_skip(p, end, HTTP1_TOKEN_CH);
}

/* Values and targets are long enough for 16 bytes at a time to pay. */

static inline const char *
http1_skip_value(const char *p, const char *end)
{
#ifdef __SSE2__
	const __m128i last_ctl = _mm_set1_epi8(0x1f);
	const __m128i tab = _mm_set1_epi8('\t');
	const __m128i del = _mm_set1_epi8(0x7f);

	for (; end - p >= 16; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i bad = _mm_cmpeq_epi8(_mm_min_epu8(v, last_ctl), v);
		unsigned m;

		bad = _mm_andnot_si128(_mm_cmpeq_epi8(v, tab), bad);
		bad = _mm_or_si128(bad, _mm_cmpeq_epi8(v, del));
		m = (unsigned)_mm_movemask_epi8(bad);
		if (m != 0)
			return p + __builtin_ctz(m);
	}
#endif
	return http1_skip(p, end, HTTP1_VALUE_CH);
}

static inline const char *
http1_skip_target(const char *p, const char *end)
{
#ifdef __SSE2__
	const __m128i space = _mm_set1_epi8(' ');
	const __m128i hash = _mm_set1_epi8('#');
	const __m128i del = _mm_set1_epi8(0x7f);

	for (; end - p >= 16; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		/* signed: bytes from 0x80 are below SP too */
		__m128i good = _mm_cmpgt_epi8(v, space);
		__m128i bad = _mm_or_si128(_mm_cmpeq_epi8(v, hash),
					   _mm_cmpeq_epi8(v, del));
		unsigned m =
		    (unsigned)_mm_movemask_epi8(_mm_andnot_si128(bad, good));

		if (m != 0xffff)
			return p + __builtin_ctz(~m);
	}
#endif
	return http1_skip(p, end, HTTP1_TARGET_CH);
}

#endif
