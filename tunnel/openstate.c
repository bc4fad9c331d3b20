/* SPDX-License-Identifier: Apache-2.0 */
/* Many channels being opened in one libssh2 session. */
#include "config.h"

#include "tunnel/openstate.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#ifdef HAVE_LIBSSH2_OPEN_H
#include <libssh2_open.h>

#define OPENSTATE_MAX 128

struct openstate {
	unsigned char raw[LIBSSH2_OPEN_SIZE];
};

static unsigned char *
openstate_at(void *ssh)
{
	return (unsigned char *)ssh + LIBSSH2_OPEN_AT;
}

unsigned
openstate_max(void)
{
	return OPENSTATE_MAX;
}

void
openstate_load(void *ssh, struct openstate **o)
{
	if (*o == NULL)
		return;
	memcpy(openstate_at(ssh), (*o)->raw, LIBSSH2_OPEN_SIZE);
	free(*o);
	*o = NULL;
}

/* All zero is libssh2's idle state. */
void
openstate_save(void *ssh, struct openstate **o)
{
	*o = xmalloc(sizeof(**o));
	memcpy((*o)->raw, openstate_at(ssh), LIBSSH2_OPEN_SIZE);
	memset(openstate_at(ssh), 0, LIBSSH2_OPEN_SIZE);
}

#else

unsigned
openstate_max(void)
{
	return 1;
}

void
openstate_load(void *ssh, struct openstate **o)
{
	(void)ssh;
	(void)o;
}

void
openstate_save(void *ssh, struct openstate **o)
{
	(void)ssh;
	(void)o;
}

#endif
