/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket addresses: text to value and back, and CIDR matching. No names are
 * looked up here, so nothing in this file blocks.
 */
#include "config.h"

#include "net/addr.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include "base/err.h"

#define UN_PATH_OFF offsetof(struct sockaddr_un, sun_path)

static int
addr_set_unix(struct addr *out, struct strv path)
{
	struct addr a;

	if (path.len == 0 || memchr(path.p, '\0', path.len) != NULL)
		return E_INVALID;
	if (path.len >= sizeof(a.u.un.sun_path))
		return E_LIMIT;
	memset(&a, 0, sizeof(a));
	a.u.un.sun_family = AF_UNIX;
	memcpy(a.u.un.sun_path, path.p, path.len);
	a.len = (socklen_t)(UN_PATH_OFF + path.len + 1);
	if (path.p[0] == '@') { /* abstract: no NUL at the end */
		if (path.len == 1)
			return E_INVALID;
		a.u.un.sun_path[0] = '\0';
		a.len--;
	}
	*out = a;
	return 0;
}

int
addr_unix(struct addr *a, const char *path)
{
	return addr_set_unix(a, strv_of(path));
}

int
addr_split(struct strv s, struct strv *host, uint16_t *port)
{
	struct strv h, rest;
	ptrdiff_t at;
	uint64_t n;

	if (s.len > 0 && s.p[0] == '[') {
		if ((at = strv_index(s, ']')) < 2)
			return E_INVALID;
		h = (struct strv){s.p + 1, (size_t)at - 1};
		rest = strv_from(s, (size_t)at + 1);
	} else {
		if ((at = strv_index(s, ':')) < 1)
			return E_INVALID;
		h = (struct strv){s.p, (size_t)at};
		rest = strv_from(s, (size_t)at);
	}
	if (rest.len < 2 || rest.p[0] != ':')
		return E_INVALID;
	if (strv_parse_u64(strv_from(rest, 1), 65535, true, &n) != 0)
		return E_INVALID;
	*host = h;
	*port = (uint16_t)n;
	return 0;
}

/* inet_pton() wants a C string. */
static bool
addr_pton(int family, struct strv s, void *out)
{
	char text[INET6_ADDRSTRLEN + 1];

	if (s.len == 0 || s.len >= sizeof(text))
		return false;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	return inet_pton(family, text, out) == 1;
}

int
addr_parse(struct strv s, struct addr *out)
{
	struct strv host;
	struct addr a;
	uint16_t port;

	if (strv_starts(s, STRV("unix:")))
		return addr_set_unix(out, strv_from(s, 5));
	if (strv_starts(s, STRV("tcp:")))
		s = strv_from(s, 4);
	if (addr_split(s, &host, &port) != 0)
		return E_INVALID;
	memset(&a, 0, sizeof(a));
	if (s.p[0] == '[') {
		a.u.in6.sin6_family = AF_INET6;
		a.u.in6.sin6_port = htons(port);
		a.len = sizeof(a.u.in6);
		if (!addr_pton(AF_INET6, host, &a.u.in6.sin6_addr))
			return E_INVALID;
	} else {
		a.u.in.sin_family = AF_INET;
		a.u.in.sin_port = htons(port);
		a.len = sizeof(a.u.in);
		if (!addr_pton(AF_INET, host, &a.u.in.sin_addr))
			return E_INVALID;
	}
	*out = a;
	return 0;
}

void
addr_loopback(struct addr *a, bool v6, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (v6) {
		a->u.in6.sin6_family = AF_INET6;
		a->u.in6.sin6_port = htons(port);
		a->u.in6.sin6_addr = in6addr_loopback;
		a->len = sizeof(a->u.in6);
	} else {
		a->u.in.sin_family = AF_INET;
		a->u.in.sin_port = htons(port);
		a->u.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		a->len = sizeof(a->u.in);
	}
}

bool
addr_is_unix(const struct addr *a)
{
	return a->u.sa.sa_family == AF_UNIX;
}

uint16_t
addr_port(const struct addr *a)
{
	if (a->u.sa.sa_family == AF_INET)
		return ntohs(a->u.in.sin_port);
	if (a->u.sa.sa_family == AF_INET6)
		return ntohs(a->u.in6.sin6_port);
	return 0;
}

static void
addr_unix_text(const struct addr *a, char buf[ADDR_TEXT_MAX])
{
	const char *path = a->u.un.sun_path;
	size_t n = a->len > UN_PATH_OFF ? a->len - UN_PATH_OFF : 0;

	if (n > sizeof(a->u.un.sun_path))
		n = sizeof(a->u.un.sun_path);
	if (n > 1 && path[0] == '\0')
		(void)snprintf(buf, ADDR_TEXT_MAX, "unix:@%.*s", (int)(n - 1),
			       path + 1);
	else
		(void)snprintf(buf, ADDR_TEXT_MAX, "unix:%.*s", (int)n, path);
}

const char *
addr_text(const struct addr *a, char buf[ADDR_TEXT_MAX])
{
	char ip[ADDR_TEXT_MAX];

	if (addr_is_unix(a)) {
		addr_unix_text(a, buf);
		return buf;
	}
	(void)addr_ip_text(a, ip);
	if (a->u.sa.sa_family == AF_INET6)
		(void)snprintf(buf, ADDR_TEXT_MAX, "[%.64s]:%u", ip,
			       addr_port(a));
	else
		(void)snprintf(buf, ADDR_TEXT_MAX, "%.64s:%u", ip,
			       addr_port(a));
	return buf;
}

/* Each request tells its client's address: without inet_ntop's printf. */
static const char *
ipv4_text(const struct in_addr *ip, char *buf)
{
	const uint8_t *b = (const uint8_t *)&ip->s_addr;
	char *p = buf;

	for (int i = 0; i < 4; i++) {
		unsigned v = b[i];

		if (v >= 100)
			*p++ = (char)('0' + v / 100);
		if (v >= 10)
			*p++ = (char)('0' + v / 10 % 10);
		*p++ = (char)('0' + v % 10);
		*p++ = i < 3 ? '.' : '\0';
	}
	return buf;
}

const char *
addr_ip_text(const struct addr *a, char buf[ADDR_TEXT_MAX])
{
	const void *ip = NULL;

	if (a->u.sa.sa_family == AF_INET)
		return ipv4_text(&a->u.in.sin_addr, buf);
	if (a->u.sa.sa_family == AF_INET6)
		ip = &a->u.in6.sin6_addr;
	if (ip == NULL ||
	    inet_ntop(a->u.sa.sa_family, ip, buf, ADDR_TEXT_MAX) == NULL)
		(void)snprintf(buf, ADDR_TEXT_MAX, "%s",
			       addr_is_unix(a) ? "unix" : "?");
	return buf;
}

/* --- networks ---------------------------------------------------------- */

int
addr_net_parse(struct strv s, struct addr_net *out)
{
	struct addr_net n;
	struct strv rest = s, ip;
	uint64_t bits;
	unsigned max;

	memset(&n, 0, sizeof(n));
	if (strv_eq(s, STRV("unix"))) {
		n.family = AF_UNIX;
		*out = n;
		return 0;
	}
	if (!strv_cut(&rest, '/', &ip))
		return E_INVALID;
	if (addr_pton(AF_INET, ip, n.bytes)) {
		n.family = AF_INET;
		max = 32;
	} else if (addr_pton(AF_INET6, ip, n.bytes)) {
		n.family = AF_INET6;
		max = 128;
	} else {
		return E_INVALID;
	}
	bits = max;
	if (rest.p != NULL && strv_parse_u64(rest, max, true, &bits) != 0)
		return E_INVALID;
	n.bits = (unsigned)bits;
	*out = n;
	return 0;
}

static bool
addr_bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

bool
addr_net_has(const struct addr_net *n, const struct addr *a)
{
	const uint8_t *ip;

	switch (a->u.sa.sa_family) {
	case AF_UNIX:
		return n->family == AF_UNIX;
	case AF_INET:
		return n->family == AF_INET &&
		       addr_bits_equal(n->bytes,
				       (const uint8_t *)&a->u.in.sin_addr,
				       n->bits);
	case AF_INET6:
		ip = a->u.in6.sin6_addr.s6_addr;
		/* An IPv4 client of a dual-stack listener is IPv4. */
		if (n->family == AF_INET &&
		    IN6_IS_ADDR_V4MAPPED(&a->u.in6.sin6_addr))
			return addr_bits_equal(n->bytes, ip + 12, n->bits);
		return n->family == AF_INET6 &&
		       addr_bits_equal(n->bytes, ip, n->bits);
	}
	return false;
}
