/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names HTTP/1.1 knows: character classes, field names and their ids,
 * reason phrases. Looking up a field name is one hash of its length and three
 * of its letters and at most one comparison; the table is laid out at compile
 * time, and two names in one slot do not compile (-Woverride-init).
 */
#include "config.h"

#include "net/http1.h"

#include <string.h>

#include "net/http1_scan.h"

#define T HTTP1_TOKEN_CH
#define G HTTP1_TARGET_CH
#define V HTTP1_VALUE_CH
#define H HTTP1_HOST_CH

const uint8_t http1_class[256] = {
    ['\t'] = V,
    [' '] = V,
    ['!'] = T | G | V | H,
    ['"'] = G | V,
    ['#'] = T | V,
    ['$' ... '\''] = T | G | V | H,
    ['(' ... ')'] = G | V | H,
    ['*' ... '+'] = T | G | V | H,
    [','] = G | V | H,
    ['-' ... '.'] = T | G | V | H,
    ['/'] = G | V,
    ['0' ... '9'] = T | G | V | H,
    [':'] = G | V,
    [';'] = G | V | H,
    ['<'] = G | V,
    ['='] = G | V | H,
    ['>' ... '@'] = G | V,
    ['A' ... 'Z'] = T | G | V | H,
    ['[' ... ']'] = G | V,
    ['^'] = T | G | V,
    ['_'] = T | G | V | H,
    ['`'] = T | G | V,
    ['a' ... 'z'] = T | G | V | H,
    ['{'] = G | V,
    ['|'] = T | G | V,
    ['}'] = G | V,
    ['~'] = T | G | V | H,
    [0x80 ... 0xff] = V,
};

/* id, name, and its first, last but one and last letter in lower case */
#define NAMES(X)                                                               \
	X(H_ACCEPT, "Accept", 'a', 'p', 't')                                   \
	X(H_AUTHORIZATION, "Authorization", 'a', 'o', 'n')                     \
	X(H_CACHE_CONTROL, "Cache-Control", 'c', 'o', 'l')                     \
	X(H_CONNECTION, "Connection", 'c', 'o', 'n')                           \
	X(H_CONTENT_LENGTH, "Content-Length", 'c', 't', 'h')                   \
	X(H_CONTENT_RANGE, "Content-Range", 'c', 'g', 'e')                     \
	X(H_CONTENT_TYPE, "Content-Type", 'c', 'p', 'e')                       \
	X(H_COOKIE, "Cookie", 'c', 'i', 'e')                                   \
	X(H_DATE, "Date", 'd', 't', 'e')                                       \
	X(H_EXPECT, "Expect", 'e', 'c', 't')                                   \
	X(H_FORWARDED, "Forwarded", 'f', 'e', 'd')                             \
	X(H_HOST, "Host", 'h', 's', 't')                                       \
	X(H_IF_RANGE, "If-Range", 'i', 'g', 'e')                               \
	X(H_KEEP_ALIVE, "Keep-Alive", 'k', 'v', 'e')                           \
	X(H_LOCATION, "Location", 'l', 'o', 'n')                               \
	X(H_ORIGIN, "Origin", 'o', 'i', 'n')                                   \
	X(H_PROXY_AUTHENTICATE, "Proxy-Authenticate", 'p', 't', 'e')           \
	X(H_PROXY_AUTHORIZATION, "Proxy-Authorization", 'p', 'o', 'n')         \
	X(H_PROXY_CONNECTION, "Proxy-Connection", 'p', 'o', 'n')               \
	X(H_RANGE, "Range", 'r', 'g', 'e')                                     \
	X(H_REFERER, "Referer", 'r', 'e', 'r')                                 \
	X(H_SEC_FETCH_DEST, "Sec-Fetch-Dest", 's', 's', 't')                   \
	X(H_SEC_FETCH_MODE, "Sec-Fetch-Mode", 's', 'd', 'e')                   \
	X(H_SEC_WEBSOCKET_ACCEPT, "Sec-WebSocket-Accept", 's', 'p', 't')       \
	X(H_SEC_WEBSOCKET_EXTENSIONS, "Sec-WebSocket-Extensions", 's', 'n',    \
	  's')                                                                 \
	X(H_SEC_WEBSOCKET_KEY, "Sec-WebSocket-Key", 's', 'e', 'y')             \
	X(H_SEC_WEBSOCKET_PROTOCOL, "Sec-WebSocket-Protocol", 's', 'o', 'l')   \
	X(H_SEC_WEBSOCKET_VERSION, "Sec-WebSocket-Version", 's', 'o', 'n')     \
	X(H_SERVER, "Server", 's', 'e', 'r')                                   \
	X(H_SET_COOKIE, "Set-Cookie", 's', 'i', 'e')                           \
	X(H_TE, "TE", 't', 't', 'e')                                           \
	X(H_TRAILER, "Trailer", 't', 'e', 'r')                                 \
	X(H_TRANSFER_ENCODING, "Transfer-Encoding", 't', 'n', 'g')             \
	X(H_UPGRADE, "Upgrade", 'u', 'd', 'e')                                 \
	X(H_USER_AGENT, "User-Agent", 'u', 'n', 't')                           \
	X(H_VIA, "Via", 'v', 'i', 'a')                                         \
	X(H_X_ACCEL_BUFFERING, "X-Accel-Buffering", 'x', 'n', 'g')             \
	X(H_X_FORWARDED_FOR, "X-Forwarded-For", 'x', 'o', 'r')                 \
	X(H_X_FORWARDED_HOST, "X-Forwarded-Host", 'x', 's', 't')               \
	X(H_X_FORWARDED_PORT, "X-Forwarded-Port", 'x', 'r', 't')               \
	X(H_X_FORWARDED_PREFIX, "X-Forwarded-Prefix", 'x', 'i', 'x')           \
	X(H_X_FORWARDED_PROTO, "X-Forwarded-Proto", 'x', 't', 'o')             \
	X(H_X_REAL_IP, "X-Real-IP", 'x', 'i', 'p')                             \
	X(H_X_REQUEST_ID, "X-Request-Id", 'x', 'i', 'd')                       \
	X(H_X_SANDBOX_TOKEN, "X-Sandbox-Token", 'x', 'e', 'n')

#define SLOT(len, first, last2, last)                                          \
	(((len)*6u + (first) + 7u * (last2) + 5u * (last)) & 0xff)

#define NAME_ENTRY(id, name, a, b, c) [id] = {"" name, sizeof(name) - 1},
#define SLOT_ENTRY(id, name, a, b, c) [SLOT(sizeof(name) - 1, a, b, c)] = id,

static const struct strv names[H_COUNT] = {NAMES(NAME_ENTRY)};
static const uint8_t slots[256] = {NAMES(SLOT_ENTRY)};

static inline uint64_t
load64_lower(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v | 0x2020202020202020u;
}

static inline uint32_t
load32_lower(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v | 0x20202020u;
}

/*
 * Equal but for case, given that one side is of letters and '-' only and the
 * other of tchars only: setting bit 5 then makes no two different ones equal.
 */
static inline bool
name_eq(const char *a, const char *b, size_t n)
{
	size_t i;

	if (n >= 8) {
		for (i = 0; i + 8 < n; i += 8)
			if (load64_lower(a + i) != load64_lower(b + i))
				return false;
		return load64_lower(a + n - 8) == load64_lower(b + n - 8);
	}
	if (n >= 4)
		return load32_lower(a) == load32_lower(b) &&
		       load32_lower(a + n - 4) == load32_lower(b + n - 4);
	for (i = 0; i < n; i++)
		if ((a[i] | 0x20) != (b[i] | 0x20))
			return false;
	return true;
}

enum http_hdr
http1_hdr_id(struct strv name)
{
	unsigned a, b, c, id;

	if (name.len < 2)
		return H_OTHER;
	a = (unsigned char)name.p[0] | 0x20;
	b = (unsigned char)name.p[name.len - 2] | 0x20;
	c = (unsigned char)name.p[name.len - 1] | 0x20;
	id = slots[SLOT((unsigned)name.len, a, b, c)];
	if (name.len != names[id].len ||
	    !name_eq(name.p, names[id].p, name.len))
		return H_OTHER;
	return (enum http_hdr)id;
}

struct strv
http1_hdr_name(enum http_hdr id)
{
	if ((unsigned)id >= H_COUNT || id == H_OTHER)
		return STRV_NULL;
	return names[id];
}

bool
http1_is_hop(enum http_hdr id)
{
	const uint64_t hop = 1ull << H_CONNECTION | 1ull << H_KEEP_ALIVE |
			     1ull << H_PROXY_CONNECTION | 1ull << H_TE |
			     1ull << H_TRAILER | 1ull << H_TRANSFER_ENCODING |
			     1ull << H_UPGRADE | 1ull << H_PROXY_AUTHENTICATE |
			     1ull << H_PROXY_AUTHORIZATION;

	_Static_assert(H_COUNT <= 64, "ids fit a 64-bit set");
	return hop >> id & 1;
}

static const struct {
	unsigned status;
	struct strv text;
} reasons[] = {
#define R(code, text)                                                          \
	{                                                                      \
		code,                                                          \
		{                                                              \
			text, sizeof(text) - 1                                 \
		}                                                              \
	}
    R(200, "OK"),
    R(404, "Not Found"),
    R(304, "Not Modified"),
    R(101, "Switching Protocols"),
    R(204, "No Content"),
    R(302, "Found"),
    R(100, "Continue"),
    R(102, "Processing"),
    R(103, "Early Hints"),
    R(201, "Created"),
    R(202, "Accepted"),
    R(203, "Non-Authoritative Information"),
    R(205, "Reset Content"),
    R(206, "Partial Content"),
    R(300, "Multiple Choices"),
    R(301, "Moved Permanently"),
    R(303, "See Other"),
    R(307, "Temporary Redirect"),
    R(308, "Permanent Redirect"),
    R(400, "Bad Request"),
    R(401, "Unauthorized"),
    R(403, "Forbidden"),
    R(405, "Method Not Allowed"),
    R(406, "Not Acceptable"),
    R(408, "Request Timeout"),
    R(409, "Conflict"),
    R(410, "Gone"),
    R(411, "Length Required"),
    R(412, "Precondition Failed"),
    R(413, "Content Too Large"),
    R(414, "URI Too Long"),
    R(415, "Unsupported Media Type"),
    R(416, "Range Not Satisfiable"),
    R(417, "Expectation Failed"),
    R(421, "Misdirected Request"),
    R(422, "Unprocessable Content"),
    R(425, "Too Early"),
    R(426, "Upgrade Required"),
    R(428, "Precondition Required"),
    R(429, "Too Many Requests"),
    R(431, "Request Header Fields Too Large"),
    R(451, "Unavailable For Legal Reasons"),
    R(500, "Internal Server Error"),
    R(501, "Not Implemented"),
    R(502, "Bad Gateway"),
    R(503, "Service Unavailable"),
    R(504, "Gateway Timeout"),
    R(505, "HTTP Version Not Supported"),
    R(507, "Insufficient Storage"),
    R(511, "Network Authentication Required"),
#undef R
};

struct strv
http1_reason_for(unsigned status)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return STRV("");
}
