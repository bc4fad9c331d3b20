/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 heads: a strict parser that works on the input in place, and a
 * serialiser. RFC 9110, RFC 9112. What is ambiguous is refused, never
 * repaired; what is forwarded is written anew from the parsed form.
 *
 * A parsed head holds 16-bit offsets into its bytes, so it can be moved
 * together with them (http1_rebase) and nothing is allocated per field.
 */
#ifndef SBX_NET_HTTP1_H
#define SBX_NET_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct bufq;

#define HTTP1_HEAD_MAX   32768 /* bytes, start line and fields */
#define HTTP1_TARGET_MAX 16384
#define HTTP1_FIELDS_MAX 100

/* Fields that some part of the house looks at; all others are H_OTHER. */
enum http_hdr {
	H_OTHER,
	H_ACCEPT,
	H_AUTHORIZATION,
	H_CACHE_CONTROL,
	H_CONNECTION,
	H_CONTENT_LENGTH,
	H_CONTENT_RANGE,
	H_CONTENT_TYPE,
	H_COOKIE,
	H_DATE,
	H_EXPECT,
	H_FORWARDED,
	H_HOST,
	H_IF_RANGE,
	H_KEEP_ALIVE,
	H_LOCATION,
	H_ORIGIN,
	H_PROXY_AUTHENTICATE,
	H_PROXY_AUTHORIZATION,
	H_PROXY_CONNECTION,
	H_RANGE,
	H_REFERER,
	H_SEC_FETCH_DEST,
	H_SEC_FETCH_MODE,
	H_SEC_WEBSOCKET_ACCEPT,
	H_SEC_WEBSOCKET_EXTENSIONS,
	H_SEC_WEBSOCKET_KEY,
	H_SEC_WEBSOCKET_PROTOCOL,
	H_SEC_WEBSOCKET_VERSION,
	H_SERVER,
	H_SET_COOKIE,
	H_TE,
	H_TRAILER,
	H_TRANSFER_ENCODING,
	H_UPGRADE,
	H_USER_AGENT,
	H_VIA,
	H_X_ACCEL_BUFFERING,
	H_X_FORWARDED_FOR,
	H_X_FORWARDED_HOST,
	H_X_FORWARDED_PORT,
	H_X_FORWARDED_PREFIX,
	H_X_FORWARDED_PROTO,
	H_X_REAL_IP,
	H_X_REQUEST_ID,
	H_X_SANDBOX_TOKEN,
	H_COUNT
};

enum http_method {
	M_OTHER, /* any other token */
	M_GET,
	M_HEAD,
	M_POST,
	M_PUT,
	M_DELETE,
	M_CONNECT,
	M_OPTIONS,
	M_TRACE,
	M_PATCH
};

/* How the body of a message is delimited (RFC 9112, 6.3). */
enum http_body {
	BODY_NONE,
	BODY_LENGTH, /* head.content_length bytes (may be 0) */
	BODY_CHUNKED,
	BODY_UNTIL_CLOSE /* responses only */
};

struct http_field {
	uint16_t name_off, name_len;
	uint16_t val_off, val_len; /* OWS trimmed */
	uint16_t id;               /* enum http_hdr */
};

struct http_head {
	const char *base; /* first byte of the head */
	uint32_t len;     /* with the empty line */
	uint16_t nfields;
	uint8_t minor; /* HTTP/1.<minor>: 0 or 1 */
	bool request;
	bool keep_alive;       /* what the sender wants, by version and
				* Connection */
	bool expect_continue;  /* request: Expect: 100-continue, on 1.1 */
	bool connection_other; /* Connection names further fields */
	bool wants_upgrade;    /* Connection: upgrade and an Upgrade field */
	enum http_body body;   /* responses: set by http1_response_body() */
	uint64_t content_length;
	bool has_content_length;

	/* request */
	enum http_method method;
	struct {
		uint16_t off, len;
	} method_at, target_at;
	/* absolute-form only: authority and the rest ("/" when empty) */
	bool absolute;
	struct {
		uint16_t off, len;
	} authority_at, path_at;

	/* response */
	uint16_t status;
	struct {
		uint16_t off, len;
	} reason_at;

	/* index + 1 of the first field with that id; 0: none */
	uint8_t first[H_COUNT];
	struct http_field fields[HTTP1_FIELDS_MAX];
};

/* Why a head was refused: a status for the client (request) or the log. */
struct http_reject {
	unsigned status;  /* 400, 414, 431, 501, 505 */
	const char *what; /* static text, for the log */
};

/*
 * Parses a request head at the start of p. E_AGAIN: more input is needed
 * (*scanned, 0 at first, remembers how far was looked, so that a trickle is
 * not quadratic). E_PROTO or E_LIMIT: refuse with *rej. One or more empty
 * CRLF lines before a request line are skipped? No: refused (RFC 9112, 2.2
 * allows it; nobody needs it).
 *
 * Refused: bare LF or CR, NUL and other control bytes, obs-fold, blank before
 * the colon, an empty or bad name, Content-Length with Transfer-Encoding, more
 * than one Content-Length or one that is not 1*DIGIT, a Transfer-Encoding other
 * than exactly one `chunked` or on 1.0, no or two Host fields, a Host that is
 * not host[:port], versions other than 1.0 and 1.1, targets not in origin-,
 * absolute- (http, https) or asterisk-form (only OPTIONS), CONNECT (501),
 * bytes outside 0x21-0x7e in a target, '#' in it, two X-Sandbox-Token, two
 * Authorization, an Expect other than 100-continue (417 as status), an
 * absolute-form whose authority is not what Host says, a Connection that is
 * not a list of tokens.
 *
 * On failure *out holds nothing of use. The verdict on a head does not depend
 * on how the input was cut into pieces; but while it trickles in, only a bare
 * LF or the end of the head makes the parser look again.
 */
int http1_parse_request(const char *p, size_t n, size_t *scanned,
			struct http_head *out,
			struct http_reject *rej) SBX_MUST_CHECK;
/* The same for a response (interim ones too). Its body kind depends on the
 * request: call http1_response_body() next. */
int http1_parse_response(const char *p, size_t n, size_t *scanned,
			 struct http_head *out,
			 struct http_reject *rej) SBX_MUST_CHECK;
/* Sets h->body for a response to a request with that method; E_PROTO for
 * what no honest server sends (lengths on 1xx/204 with content, …). */
int http1_response_body(struct http_head *h,
			enum http_method req) SBX_MUST_CHECK;
/* How a response's body is framed by who passes it on, once h->body is set: as
 * it came. An answer without a body says what the one to GET would say: a
 * length, if there was one (RFC 9110, 9.3.2 and 15.4.5). */
enum http_body http1_onward_body(const struct http_head *h);

/* The head's bytes now stand at base (they were moved or copied). */
void http1_rebase(struct http_head *h, const char *base);

struct strv http1_method(const struct http_head *h);
struct strv http1_target(const struct http_head *h); /* as received */
/* The path and query to route on: the target itself in origin-form, the part
 * after the authority in absolute-form. */
struct strv http1_path(const struct http_head *h);
struct strv http1_authority(const struct http_head *h); /* absolute-form */
struct strv http1_reason(const struct http_head *h);
struct strv http1_name(const struct http_head *h, size_t i);
struct strv http1_value(const struct http_head *h, size_t i);
/* Value of the first field with that id; p NULL when there is none. */
struct strv http1_get(const struct http_head *h, enum http_hdr id);
/* Index of the next field with that id after i (start with -1); -1: none. */
int http1_next(const struct http_head *h, enum http_hdr id, int i);
size_t http1_count(const struct http_head *h, enum http_hdr id);
/* Any field by name, case-insensitively (slow path). */
struct strv http1_find(const struct http_head *h, struct strv name);

/* Fields that end at each hop whatever Connection says: Connection,
 * Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade,
 * Proxy-Authenticate, Proxy-Authorization. */
bool http1_is_hop(enum http_hdr id);
/* True when Connection names this field (only if h->connection_other). */
bool http1_connection_names(const struct http_head *h, struct strv name);
/* True when the comma-separated list has the token (case-insensitive). */
bool http1_list_has(struct strv list, struct strv token);

enum http_hdr http1_hdr_id(struct strv name);
struct strv http1_hdr_name(enum http_hdr id);  /* canonical spelling */
struct strv http1_reason_for(unsigned status); /* "Not Found"; "" unknown */
bool http1_host_ok(struct strv s);             /* host[:port], not empty */
bool http1_token_ok(struct strv s);            /* 1*tchar */
bool http1_value_ok(struct strv s);            /* may stand as a field value */

/*
 * Writing a head: begin reserves contiguous room at the end of q, the put
 * functions fill it, end commits. Values are checked (no CR, LF, NUL):
 * a bad one or too little room makes end return E_INVALID or E_LIMIT and
 * leaves q as it was.
 */
struct http_writer {
	struct bufq *q;
	char *start, *p, *end;
	int err;
};
void http1_write_request(struct http_writer *w, struct bufq *q, size_t room,
			 struct strv method, struct strv target);
void http1_write_status(struct http_writer *w, struct bufq *q, size_t room,
			unsigned status, struct strv reason);
void http1_put(struct http_writer *w, struct strv name, struct strv value);
/* Field i of a parsed head as it is; what the parser let through needs no
 * further check, so this is the cheap way to pass a field on. */
void http1_put_field(struct http_writer *w, const struct http_head *h,
		     size_t i);
void http1_put_f(struct http_writer *w, struct strv name, const char *fmt, ...)
    SBX_PRINTF(3, 4);
void http1_put_u64(struct http_writer *w, struct strv name, uint64_t v);
/* A value made of pieces, without a copy in between. */
void http1_put_parts(struct http_writer *w, struct strv name,
		     const struct strv *parts, size_t n);
int http1_write_end(struct http_writer *w) SBX_MUST_CHECK;

#endif
