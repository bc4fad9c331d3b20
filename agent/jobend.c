/* SPDX-License-Identifier: Apache-2.0 */
/* Writing exit.json. The first one counts: link(2) refuses a second. */
#include "config.h"

#include "agent/jobend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/str.h"

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

int
jobend_write(int dirfd, const struct jobend *e)
{
	struct strbuf b = {0};
	char name[48];
	int fd, r;

	(void)snprintf(name, sizeof(name), "exit.json.%ld", (long)getpid());
	fd =
	    openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd == -1)
		return err_from_errno(errno);
	put_text(e, &b);
	r = fd_write_all(fd, b.s, b.len);
	if (r == 0 &&
	    (fsync(fd) != 0 || linkat(dirfd, name, dirfd, "exit.json", 0) != 0))
		r = err_from_errno(errno);
	(void)close(fd);
	strbuf_clear(&b);
	(void)unlinkat(dirfd, name, 0);
	if (r == 0 && fsync(dirfd) != 0)
		r = err_from_errno(errno);
	return r;
}
