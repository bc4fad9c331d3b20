/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Length-carrying string views (never NUL-terminated by promise), strict
 * number parsing, and a growing byte string. ASCII rules only: protocol text
 * has no locale.
 */
#ifndef SBX_BASE_STR_H
#define SBX_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"

struct strv {
	const char *p;
	size_t len;
};

#define STRV(lit)   ((struct strv){("" lit), sizeof(lit) - 1})
#define STRV_NULL   ((struct strv){NULL, 0})
#define STRV_ARG(v) (int)(v).len, (v).p /* for "%.*s" */

struct strv strv_of(const char *s); /* NULL gives the empty view */
bool strv_eq(struct strv a, struct strv b);
bool strv_eq_nocase(struct strv a, struct strv b);
bool strv_starts(struct strv s, struct strv prefix);
bool strv_ends(struct strv s, struct strv suffix);
struct strv strv_from(struct strv s, size_t off); /* off <= len */
/* Without leading and trailing SP and HTAB (RFC 9110 OWS). */
struct strv strv_trim(struct strv s);
/* Cuts *rest at the first sep: returns what stands before it, and leaves what
 * follows in *rest (p NULL when there was no sep). False when rest->p is NULL.
 */
bool strv_cut(struct strv *rest, char sep, struct strv *out);
/* -1 when c is not in s. */
ptrdiff_t strv_index(struct strv s, char c);

/* 1*DIGIT and nothing else, no sign, no blanks; leading zeros only when
 * canonical is false. E_INVALID, or E_LIMIT beyond max. */
int strv_parse_u64(struct strv s, uint64_t max, bool canonical,
		   uint64_t *out) SBX_MUST_CHECK;
#define STR_U64_MAX 20 /* digits of UINT64_MAX */
/* Writes v in decimal, no NUL; how many digits that was. */
size_t str_put_u64(char p[STR_U64_MAX], uint64_t v);
/* "10", "10ms", "2s", "5m", "1h", "1d" -> milliseconds (a bare number is
 * seconds). */
int strv_parse_duration(struct strv s, uint64_t *out_ms) SBX_MUST_CHECK;
/* "10", "64K", "10M", "1G" (powers of 1024) -> bytes. */
int strv_parse_size(struct strv s, uint64_t *out) SBX_MUST_CHECK;

/* The value of one hex digit, either case; -1 when c is none. */
int str_hex_value(char c);

/* A growing byte string; zeroed is empty. s is always NUL-terminated once
 * anything was added. */
struct strbuf {
	char *s;
	size_t len;
	size_t cap;
};

void strbuf_clear(struct strbuf *b); /* frees; b is empty and reusable */
void strbuf_reset(struct strbuf *b); /* len = 0, keeps the memory */
void strbuf_add(struct strbuf *b, const void *p, size_t n);
void strbuf_addv(struct strbuf *b, struct strv v);
void strbuf_adds(struct strbuf *b, const char *s);
void strbuf_addc(struct strbuf *b, char c);
void strbuf_addf(struct strbuf *b, const char *fmt, ...) SBX_PRINTF(2, 3);
/* Adds v as a JSON string with its quotes (RFC 8259); bytes that are not
 * UTF-8 become U+FFFD as Python's errors="replace" makes them. */
void strbuf_add_json(struct strbuf *b, struct strv v);
/* What stands between the quotes of a JSON string that strbuf_add_json() wrote:
 * how many bytes it stands for, and those bytes. */
size_t str_json_len(struct strv v);
void strbuf_add_unjson(struct strbuf *b, struct strv v);
/* Adds v with &<>"' escaped for HTML text and attributes. */
void strbuf_add_html(struct strbuf *b, struct strv v);
/* Hands the bytes over to the caller (free() them); b is empty after. */
char *strbuf_take(struct strbuf *b);

#endif
