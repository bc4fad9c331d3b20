/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the CoreWeave service, of whatever transport: what fields there
 * are (descriptions with names, numbers and types, as in its protocol
 * buffers), and the tree that one was read into. Nothing of JSON, of protocol
 * buffers' bytes or of HTTP is known here.
 *
 * Fields are named as in the schema ("sandbox_id"). To ask for one that the
 * message does not have, or as another type, is a bug.
 */
#ifndef SBX_GATEWAY_CWMSG_H
#define SBX_GATEWAY_CWMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

/* --- descriptions ------------------------------------------------------ */

enum cwmsg_type {
	CWMSG_BOOL,
	CWMSG_INT32,
	CWMSG_INT64,
	CWMSG_UINT32,
	CWMSG_UINT64,
	CWMSG_STRING,
	CWMSG_BYTES,
	CWMSG_ENUM,
	CWMSG_TIME, /* google.protobuf.Timestamp */
	CWMSG_MAP,  /* map<string, string> */
	CWMSG_MSG
};

enum cwmsg_label {
	CWMSG_PLAIN,
	CWMSG_OPTIONAL, /* that it is there means something, also when 0 */
	CWMSG_REPEATED
};

struct cwmsg_word {
	const char *name;
	int32_t number;
};

struct cwmsg_enum {
	const struct cwmsg_word *v;
	size_t n;
};

struct cwmsg_desc;

struct cwmsg_field {
	const char *name; /* in JSON also in camel case */
	uint32_t number;
	enum cwmsg_type type;
	enum cwmsg_label label;
	unsigned oneof; /* fields with the same number exclude each other; 0:
			 * none */
	const struct cwmsg_desc *msg;
	const struct cwmsg_enum *words;
};

struct cwmsg_desc {
	const char *name;
	const struct cwmsg_field *v;
	size_t n;
};

/* NULL: there is none of that name. */
const struct cwmsg_field *cwmsg_field(const struct cwmsg_desc *d,
				      struct strv name);
/* E_NOTFOUND. */
int cwmsg_enum_number(const struct cwmsg_enum *e, struct strv name,
		      int32_t *out) SBX_MUST_CHECK;
/* NULL: none has that number. */
const char *cwmsg_enum_name(const struct cwmsg_enum *e, int32_t number);

/* --- trees ------------------------------------------------------------- */

struct cwmsg;

/* One value of a field. p is malloc'ed and has a NUL behind it. */
struct cwval {
	int64_t num;    /* numbers, booleans, enums; seconds of a time. The
			 * bits of a uint64 */
	uint32_t nanos; /* of a time */
	char *key;      /* of a map's entry */
	char *p;        /* strings, bytes, a map entry's value */
	size_t len;
	struct cwmsg *msg;
};

struct cwmsg *cwmsg_new(const struct cwmsg_desc *d);
void cwmsg_free(struct cwmsg *m); /* wipes texts and bytes; NULL is fine */
const struct cwmsg_desc *cwmsg_desc(const struct cwmsg *m);

/* For who reads a message: one more value of f, which is one of m's; zeroed.
 * For a field that is not repeated there must be none yet. */
struct cwval *cwmsg_add(struct cwmsg *m, const struct cwmsg_field *f);
void cwmsg_set(struct cwval *v, struct strv s); /* copies s */
/* The field of the same oneof that is there already; NULL: none. */
const struct cwmsg_field *cwmsg_rival(const struct cwmsg *m,
				      const struct cwmsg_field *f);

/* m NULL has no values: what is below a message that is absent is absent. */
const struct cwval *cwmsg_values(const struct cwmsg *m,
				 const struct cwmsg_field *f, size_t *n);
bool cwmsg_has(const struct cwmsg *m, const char *name);
size_t cwmsg_count(const struct cwmsg *m, const char *name);
/* 0 when absent. */
int64_t cwmsg_int(const struct cwmsg *m, const char *name);
/* In ms since 1970, rounded down; 0 when absent. */
int64_t cwmsg_time_ms(const struct cwmsg *m, const char *name);
/* Strings and bytes; empty when absent. */
struct strv cwmsg_view(const struct cwmsg *m, const char *name);
const char *cwmsg_text(const struct cwmsg *m, const char *name);
const struct cwmsg *cwmsg_msg(const struct cwmsg *m, const char *name);
/* Number i of a repeated field. */
const char *cwmsg_text_at(const struct cwmsg *m, const char *name, size_t i);
const struct cwmsg *cwmsg_msg_at(const struct cwmsg *m, const char *name,
				 size_t i);
/* Entry i of a map; *key and *value are the message's. */
void cwmsg_pair_at(const struct cwmsg *m, const char *name, size_t i,
		   const char **key, const char **value);

#endif
