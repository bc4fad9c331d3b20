/* SPDX-License-Identifier: Apache-2.0 */
/* DIR/output -> DIR/log; see the header. */
#include "config.h"

#include "gateway/launchlog.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"

#define LINE_MAX_BYTES 16384
#define TURN_MAX       (1U << 20) /* bytes in one go: others wait, too */

static void
put_line(struct strbuf *b, struct strv text)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	strbuf_addf(b, "{\"t\":%lld,\"s\":\"stdout\",\"d\":",
		    (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000);
	strbuf_add_json(b, text);
	strbuf_adds(b, "}\n");
}

/* Whole lines of text; returns how much of it was used. */
static size_t
put_lines(struct strbuf *b, struct strv text, bool end)
{
	size_t used = 0;

	while (used < text.len) {
		struct strv rest = strv_from(text, used);
		ptrdiff_t nl = strv_index(rest, '\n');
		size_t n = nl >= 0 ? (size_t)nl : rest.len;

		if (n > LINE_MAX_BYTES) {
			n = LINE_MAX_BYTES;
			nl = -1;
		} else if (nl < 0 && !end) {
			break;
		}
		put_line(b, (struct strv){rest.p, n});
		used += n + (nl >= 0 ? 1 : 0);
	}
	return used;
}

static void
append(const char *dir, uint64_t max, const struct strbuf *b)
{
	char *log = xasprintf("%s/log", dir), *old = xasprintf("%s/log.1", dir);
	struct stat sb;
	int fd;

	if (stat(log, &sb) == 0 && sb.st_size > 0 &&
	    (uint64_t)sb.st_size + b->len > max / 2)
		(void)rename(log, old);
	fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		  0600);
	if (fd != -1) {
		(void)!fd_write_all(fd, b->s, b->len);
		(void)close(fd);
	}
	free(log);
	free(old);
}

/* The file is whoever's who runs the job: no link is followed, and nothing but
 * a file is read. */
static int
open_output(const char *dir)
{
	char *path = xasprintf("%s/output", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat sb;

	free(path);
	if (fd != -1 && (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode)))
		fd_close(&fd);
	return fd;
}

static uint64_t
read_at(const char *dir)
{
	char *path = xasprintf("%s/output.at", dir), *text;
	uint64_t at = 0;
	size_t len;

	if (file_read(path, 32, &text, &len) == 0) {
		if (strv_parse_u64((struct strv){text, len}, INT64_MAX, true,
				   &at) != 0)
			at = 0;
		free(text);
	}
	free(path);
	return at;
}

static void
write_at(const char *dir, uint64_t at)
{
	char *path = xasprintf("%s/output.at", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd != -1) {
		(void)!dprintf(fd, "%llu", (unsigned long long)at);
		(void)close(fd);
	}
	free(path);
}

void
launchlog_pump(const char *dir, uint64_t max, bool end)
{
	int fd = open_output(dir);
	uint64_t at = read_at(dir);
	struct strbuf b = {0};
	char *text;
	ssize_t n;
	size_t used;

	if (fd == -1)
		return;
	text = xmalloc(TURN_MAX);
	do {
		n = pread(fd, text, TURN_MAX, (off_t)at);
		used = n > 0 ? put_lines(&b, (struct strv){text, (size_t)n},
					 end && n < (ssize_t)TURN_MAX)
			     : 0;
		if (used > 0) {
			append(dir, max, &b);
			write_at(dir, at += used);
			strbuf_reset(&b);
		}
	} while (end && used > 0);
	strbuf_clear(&b);
	free(text);
	(void)close(fd);
}
