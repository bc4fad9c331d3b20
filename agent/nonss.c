/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the static build only, in front of the C library's own: libevent mentions
 * name look-ups that the agent never makes. glibc's would load shared libraries
 * of exactly its own version at run time, and are a tenth of the program. So
 * would translated error messages, with their character sets.
 */
#include "config.h"

#include <netdb.h>
#include <stddef.h>
#include <stdint.h>

int
getaddrinfo(const char *restrict node, const char *restrict service,
	    const struct addrinfo *restrict hints,
	    struct addrinfo **restrict res)
{
	(void)node;
	(void)service;
	(void)hints;
	(void)res;
	return EAI_FAIL;
}

void
freeaddrinfo(struct addrinfo *ai)
{
	(void)ai;
}

const char *
gai_strerror(int code)
{
	(void)code;
	return "no name look-ups in this program";
}

struct servent *
getservbyname(const char *name, const char *proto)
{
	(void)name;
	(void)proto;
	return NULL;
}

struct protoent *
getprotobynumber(int proto)
{
	(void)proto;
	return NULL;
}

/* What glibc itself calls, in strerror() for one. */
char *__dcgettext(const char *domain, const char *text, int category);

char *
__dcgettext(const char *domain, const char *text, int category)
{
	(void)domain;
	(void)category;
	return (char *)(uintptr_t)text;
}
