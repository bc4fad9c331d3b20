/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One short command on the far side, on a session channel of its own. It may
 * be refused or fail: then the answer is empty.
 *
 * sshd sets TCP_NODELAY on a connection when it starts a command there, not
 * before. Without it a small packet waits for the acknowledgement of the last
 * one, which the other side holds back for 40 ms. So every connection has one
 * command, even if it does nothing.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "tunnel/options.h"
#include "tunnel/session_int.h"

#define EXEC_OUT_MAX 256

enum exec_state { EXEC_OPEN, EXEC_START, EXEC_READ, EXEC_FREE };

struct exec {
	enum exec_state state;
	LIBSSH2_CHANNEL *ssh;
	char *cmd;
	struct strbuf out;
	bool quiet; /* nobody asked for it */
};

void
session_exec(struct session *s, const char *cmd)
{
	if (s->exec != NULL)
		return;
	s->exec = xcalloc(1, sizeof(*s->exec));
	s->exec->cmd = xstrdup(cmd);
	session_kick(s);
}

void
exec_nudge(struct session *s)
{
	if (s->exec != NULL || !s->o->no_delay)
		return;
	session_exec(s, ":");
	s->exec->quiet = true;
}

void
exec_free(struct exec *e)
{
	if (e == NULL)
		return;
	free(e->cmd);
	strbuf_clear(&e->out);
	free(e);
}

/* LIBSSH2_ERROR_EAGAIN, 0 to go on with the next state, or it failed. */
static int
exec_open(struct session *s, struct exec *e)
{
	e->ssh = libssh2_channel_open_ex(s->ssh, "session", 7, CHAN_PACKET,
					 CHAN_PACKET, NULL, 0);
	if (e->ssh == NULL)
		return libssh2_session_last_errno(s->ssh);
	/* What it says on stderr must not hide its end. */
	(void)!libssh2_channel_handle_extended_data2(
	    e->ssh, LIBSSH2_CHANNEL_EXTENDED_DATA_IGNORE);
	return 0;
}

static int
exec_read(struct exec *e)
{
	char buf[EXEC_OUT_MAX];
	ssize_t n;

	while ((n = libssh2_channel_read(e->ssh, buf, sizeof(buf))) > 0)
		if (e->out.len + (size_t)n < EXEC_OUT_MAX)
			strbuf_add(&e->out, buf, (size_t)n);
	if (n < 0)
		return (int)n;
	return libssh2_channel_eof(e->ssh) ? 0 : LIBSSH2_ERROR_EAGAIN;
}

static int
exec_step(struct session *s, struct exec *e)
{
	switch (e->state) {
	case EXEC_OPEN:
		return exec_open(s, e);
	case EXEC_START:
		return libssh2_channel_process_startup(
		    e->ssh, "exec", 4, e->cmd, (unsigned)strlen(e->cmd));
	case EXEC_READ:
		return exec_read(e);
	case EXEC_FREE:
		return libssh2_channel_free(e->ssh);
	}
	return LIBSSH2_ERROR_PROTO;
}

bool
exec_run(struct session *s)
{
	struct exec *e = s->exec;
	int rc;

	while (e != NULL && s->state == SESSION_UP) {
		rc = exec_step(s, e);
		if (rc == LIBSSH2_ERROR_EAGAIN)
			return e->state != EXEC_OPEN;
		if (session_fatal(s, rc))
			return false;
		if (rc == 0 && e->state < EXEC_FREE) {
			e->state++;
			continue;
		}
		if (e->ssh != NULL && e->state < EXEC_FREE) {
			e->state = EXEC_FREE; /* failed half-way */
			continue;
		}
		s->exec = NULL;
		if (!e->quiet)
			s->cbs->executed(e->out.s != NULL ? e->out.s : "",
					 s->arg);
		exec_free(e);
		break;
	}
	return true;
}
