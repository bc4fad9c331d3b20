/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: one line for each exchange, and for each tunnel when it
 * ends, as JSON or in the combined format with our fields after it. Lines of
 * one loop batch leave in one write.
 *
 * No secret gets into it: header credentials are never given to it, and query
 * parameters whose names say token, secret, signature and the like are masked,
 * in targets and in Referer.
 */
#ifndef SBX_GATEWAY_ACCESSLOG_H
#define SBX_GATEWAY_ACCESSLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/gwconf.h"

struct access_log;
struct loop;

#define ACCESS_NO_TIME UINT64_MAX

struct access_entry {
	struct strv id;   /* request id */
	struct strv peer; /* address */
	struct strv user; /* who was authorised; empty: nobody */
	struct strv method, target, proto, host, referer, agent;
	unsigned status;   /* 0: none was sent */
	const char *close; /* who ended it and why; see exchange.c */
	const char *code;  /* gateway error code; NULL: none */
	struct strv sandbox;
	unsigned port;        /* 0: no port inside */
	struct strv upstream; /* address or kind; empty: none */
	bool reused, retried, tunnel, tls;
	uint64_t bytes_in, bytes_out;
	/* microseconds since the head was complete; ACCESS_NO_TIME */
	uint64_t queue_us;   /* until the upstream was sought */
	uint64_t connect_us; /* until it was there */
	uint64_t first_us;   /* until its response head came */
	uint64_t total_us;
};

/* path NULL: standard output. E_SYS, E_DENIED. */
int accesslog_open(struct loop *l, enum access_format f, const char *path,
		   struct access_log **out) SBX_MUST_CHECK;
/* Writes what waits. */
void accesslog_free(struct access_log *a);
/* After logrotate; keeps the old file when the new one cannot be opened. */
void accesslog_reopen(struct access_log *a);
void accesslog_write(struct access_log *a, const struct access_entry *e);
bool accesslog_on(const struct access_log *a);

/* For tests: one line, for the time given. */
void accesslog_format(enum access_format f, const struct access_entry *e,
		      int64_t unix_ms, struct strbuf *out);
/* Appends a target or URL with the values of telling parameters masked. */
void accesslog_redact(struct strv target, struct strbuf *out);

#endif
