/* SPDX-License-Identifier: Apache-2.0 */
/* Writing exit.json. The first one counts: link(2) refuses a second. */
#include "config.h"

#include "agent/jobend.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/str.h"

#define NEW  "exit.json.new" /* who writes it has the directory's lock */
#define ROOM 4096            /* more than it takes */

/* Who was killed so, or says that its child was (a shell). */
static bool
was_killed(const struct jobend *e)
{
	return e->signal == SIGKILL || e->code == 128 + SIGKILL ||
	       strcmp(e->reason, "lost") == 0;
}

void
jobend_conclude(struct jobend *e, const struct jobend_facts *f)
{
	if (strcmp(e->reason, "unstarted") == 0)
		;
	else if (f->why != NULL)
		e->reason = f->why;
	else if (f->starved && was_killed(e))
		e->reason = "oom";
	if (strcmp(e->reason, "oom") != 0 && *e->message != '\0')
		return;
	if (f->starved)
		(void)snprintf(e->message, sizeof(e->message),
			       "out of memory: the limit is %llu MiB",
			       (unsigned long long)f->memory >> 20);
	else if (strcmp(e->reason, "timeout") == 0)
		(void)snprintf(e->message, sizeof(e->message),
			       "timed out after %llu s",
			       (unsigned long long)f->timeout_ms / 1000);
	else if (e->signal != 0)
		(void)snprintf(e->message, sizeof(e->message),
			       "killed by signal %d (%s)", e->signal,
			       strsignal(e->signal));
}

static void
put_text(const struct jobend *e, struct strbuf *b)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	strbuf_adds(b, "{\"reason\":");
	strbuf_add_json(b, strv_of(e->reason));
	if (e->code >= 0)
		strbuf_addf(b, ",\"code\":%d", e->code);
	else
		strbuf_adds(b, ",\"code\":null");
	if (e->signal != 0)
		strbuf_addf(b, ",\"signal\":%d", e->signal);
	else
		strbuf_adds(b, ",\"signal\":null");
	strbuf_adds(b, ",\"message\":");
	strbuf_add_json(b, strv_of(e->message));
	strbuf_addf(b, ",\"time\":%lld}\n",
		    (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000);
}

void
jobend_reserve(int dirfd)
{
	static const char room[ROOM];
	int fd = openat(dirfd, NEW, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd != -1) {
		(void)!fd_write_all(fd, room, sizeof(room));
		(void)close(fd);
	}
}

int
jobend_write(int dirfd, const struct jobend *e)
{
	struct strbuf b = {0};
	int fd = openat(dirfd, NEW, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), r;

	if (fd == -1)
		return err_from_errno(errno);
	put_text(e, &b);
	r = fd_write_all(fd, b.s, b.len);
	if (r == 0 && (ftruncate(fd, (off_t)b.len) != 0 || fsync(fd) != 0 ||
		       linkat(dirfd, NEW, dirfd, "exit.json", 0) != 0))
		r = err_from_errno(errno);
	(void)close(fd);
	strbuf_clear(&b);
	(void)unlinkat(dirfd, NEW, 0);
	if (r == 0 && fsync(dirfd) != 0)
		r = err_from_errno(errno);
	return r;
}
