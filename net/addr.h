/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as they are written in configuration and environment:
 *   unix:/path   unix:@abstract   tcp:HOST:PORT   tcp:[V6]:PORT
 * and, for listeners, http://… https://… in front of HOST:PORT.
 */
#ifndef SBX_NET_ADDR_H
#define SBX_NET_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

#include "base/defs.h"
#include "base/str.h"

/* A socket address by value: unix, IPv4 or IPv6. */
struct addr {
	union {
		struct sockaddr sa;
		struct sockaddr_un un;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} u;
	socklen_t len;
};

#define ADDR_TEXT_MAX 128

/* Numeric addresses only ("unix:/p", "tcp:127.0.0.1:80", "127.0.0.1:80",
 * "[::1]:80"); names are the dialer's. E_INVALID, E_LIMIT (path too long). */
int addr_parse(struct strv s, struct addr *out) SBX_MUST_CHECK;
/* "host:port" -> its parts (brackets taken off); E_INVALID. */
int addr_split(struct strv s, struct strv *host, uint16_t *port) SBX_MUST_CHECK;
void addr_loopback(struct addr *a, bool v6, uint16_t port);
int addr_unix(struct addr *a, const char *path) SBX_MUST_CHECK;
bool addr_is_unix(const struct addr *a);
uint16_t addr_port(const struct addr *a); /* 0 for unix */
/* "unix:/p" or "1.2.3.4:80" or "[::1]:80"; returns buf. */
const char *addr_text(const struct addr *a, char buf[ADDR_TEXT_MAX]);
/* The IP alone, "unix" for a unix socket. */
const char *addr_ip_text(const struct addr *a, char buf[ADDR_TEXT_MAX]);
/* CIDR match: "10.0.0.0/8", "::1", "unix". E_INVALID for bad text. */
struct addr_net {
	int family;
	uint8_t bytes[16];
	unsigned bits;
};
int addr_net_parse(struct strv s, struct addr_net *out) SBX_MUST_CHECK;
bool addr_net_has(const struct addr_net *n, const struct addr *a);

#endif
