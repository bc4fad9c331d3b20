/* SPDX-License-Identifier: Apache-2.0 */
/* JSON lines about the tunnel's state, to a descriptor or a file. */
#include "config.h"

#include "tunnel/status.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

struct status {
	int fd;
	char *name;
};

int
status_open(const char *name, int fd, const char *path, struct status **out)
{
	struct status *st;

	if (path != NULL) {
		fd = open(path,
			  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY |
			      O_NONBLOCK,
			  0644);
		if (fd < 0)
			return E_SYS;
	} else if (fd >= 0 && fd_set_cloexec(fd, true) != 0) {
		return E_SYS;
	}
	st = xcalloc(1, sizeof(*st));
	st->fd = fd;
	st->name = name != NULL ? xstrdup(name) : NULL;
	*out = st;
	return 0;
}

void
status_free(struct status *st)
{
	if (st == NULL)
		return;
	fd_close(&st->fd);
	free(st->name);
	free(st);
}

static void
add_time(struct strbuf *b)
{
	struct timespec ts;
	struct tm tm;
	char text[32];

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	strbuf_addf(b, ",\"time\":\"%s.%03ldZ\"", text, ts.tv_nsec / 1000000);
}

void
status_emit(struct status *st, const char *event, const char *fields)
{
	struct pollfd p = {st->fd, POLLOUT, 0};
	struct strbuf b = {0};

	if (st->fd < 0)
		return;
	strbuf_addf(&b, "{\"event\":\"%s\"", event);
	add_time(&b);
	if (st->name != NULL) {
		strbuf_adds(&b, ",\"tunnel\":");
		strbuf_add_json(&b, strv_of(st->name));
	}
	if (fields[0] != '\0')
		strbuf_addf(&b, ",%s", fields);
	strbuf_adds(&b, "}\n");
	/* PIPE_BUF holds any of our lines: all of it is written, or nothing */
	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0)
		(void)!write(st->fd, b.s, b.len);
	strbuf_clear(&b);
}
