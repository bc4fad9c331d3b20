/* SPDX-License-Identifier: Apache-2.0 */
/* Many channels being opened in one libssh2 session. */
#include "config.h"

#include "tunnel/openstate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/mem.h"

#ifdef HAVE_LIBSSH2_OPEN_H
#include <libssh2.h>
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

/*
 * The numbers come from the library's build, and somebody may have put another
 * library there. So they are tried once, on a session that talks to nobody,
 * and first without writing: a channel that is being opened must show exactly
 * there, its number at the end; two at once must both send their message, and
 * neither again.
 */
struct openstate_trial {
	unsigned sent;
	bool over;
};

static ssize_t
trial_send_cb(libssh2_socket_t fd, const void *p, size_t n, int flags,
	      void **abstract)
{
	struct openstate_trial *t = *abstract;

	(void)fd;
	(void)p;
	(void)flags;
	t->sent++;
	return (ssize_t)n;
}

static ssize_t
trial_recv_cb(libssh2_socket_t fd, void *p, size_t n, int flags,
	      void **abstract)
{
	struct openstate_trial *t = *abstract;

	(void)fd;
	(void)p;
	(void)n;
	(void)flags;
	return t->over ? 0 : -EAGAIN;
}

/* True while the channel is being opened. */
static bool
trial_open(LIBSSH2_SESSION *ssh)
{
	return libssh2_channel_open_ex(ssh, "session", 7, 1, 1, NULL, 0) ==
		   NULL &&
	       libssh2_session_last_errno(ssh) == LIBSSH2_ERROR_EAGAIN;
}

/* The state comes first, the channel's number last. */
static bool
trial_shows(LIBSSH2_SESSION *ssh, uint32_t number)
{
	uint32_t first, last;

	memcpy(&first, openstate_at(ssh), sizeof(first));
	memcpy(&last, openstate_at(ssh) + LIBSSH2_OPEN_SIZE - sizeof(last),
	       sizeof(last));
	return first != 0 && last == number;
}

static bool
trial_two(LIBSSH2_SESSION *ssh, struct openstate_trial *t)
{
	static const unsigned char zero[LIBSSH2_OPEN_SIZE];
	struct openstate *a = NULL, *b = NULL;
	bool good;

	if (memcmp(openstate_at(ssh), zero, sizeof(zero)) != 0 ||
	    !trial_open(ssh) || t->sent != 1 || !trial_shows(ssh, 0))
		return false;
	openstate_save(ssh, &a);
	good = trial_open(ssh) && t->sent == 2 && trial_shows(ssh, 1);
	openstate_save(ssh, &b);
	openstate_load(ssh, &a);
	good = trial_open(ssh) && t->sent == 2 && trial_shows(ssh, 0) && good;
	t->over = true;
	good = !trial_open(ssh) && good;
	openstate_load(ssh, &b);
	return !trial_open(ssh) && t->sent == 2 && good;
}

static bool
openstate_try(void)
{
	struct openstate_trial t = {0};
	LIBSSH2_SESSION *ssh = libssh2_session_init_ex(NULL, NULL, NULL, &t);
	bool good;

	if (ssh == NULL)
		return false;
	libssh2_session_set_blocking(ssh, 0);
	libssh2_session_callback_set2(ssh, LIBSSH2_CALLBACK_SEND,
				      (libssh2_cb_generic *)trial_send_cb);
	libssh2_session_callback_set2(ssh, LIBSSH2_CALLBACK_RECV,
				      (libssh2_cb_generic *)trial_recv_cb);
	good = trial_two(ssh, &t);
	t.over = true;
	for (int i = 0; i < 100; i++)
		if (libssh2_session_free(ssh) != LIBSSH2_ERROR_EAGAIN)
			break;
	return good;
}

unsigned
openstate_max(void)
{
	static unsigned max;

	if (max == 0)
		max = openstate_try() ? OPENSTATE_MAX : 1;
	return max;
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
