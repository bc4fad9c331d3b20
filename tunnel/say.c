/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the user. They go out in one write and are dropped rather than
 * waited for: a harness may hold stderr as a pipe that nobody reads.
 */
#include "config.h"

#include "tunnel/say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "tunnel/options.h"

void
say(const struct options *o, int level, const char *fmt, ...)
{
	struct pollfd p = {STDERR_FILENO, POLLOUT, 0};
	char line[2048];
	va_list ap;
	int n;

	if (level > o->log)
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0)
		(void)!write(STDERR_FILENO, line, (size_t)n);
}
