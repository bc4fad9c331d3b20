/* SPDX-License-Identifier: Apache-2.0 */
/* A line of progress; see the header. */
#include "config.h"

#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/loop.h"

#define PROGRESS_EVERY_US 100000
#define PROGRESS_BAR      24

/* "12.3 MiB" */
static void
progress_size(double bytes, char *out, size_t size)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	size_t i = 0;

	while (bytes >= 1024 && i < 4) {
		bytes /= 1024;
		i++;
	}
	(void)snprintf(out, size, i == 0 ? "%.0f %s" : "%.1f %s", bytes,
		       units[i]);
}

static void
progress_show(struct progress *g, uint64_t now)
{
	double seconds = (double)(now - g->started_us + 1) / 1e6;
	char done[32], rate[32], bar[PROGRESS_BAR + 1] = "";
	unsigned part = 0;

	progress_size((double)g->done, done, sizeof(done));
	progress_size((double)g->done / seconds, rate, sizeof(rate));
	if (g->total > 0) {
		part = (unsigned)(g->done * 100 / g->total);
		memset(bar, '-', PROGRESS_BAR);
		memset(bar, '#', (size_t)part * PROGRESS_BAR / 100);
		(void)fprintf(stderr, "\r%-24.24s [%s] %3u%%  %s  %s/s\033[K",
			      g->name, bar, part, done, rate);
	} else {
		(void)fprintf(stderr, "\r%-24.24s  %s  %s/s\033[K", g->name,
			      done, rate);
	}
	g->shown_us = now;
}

void
progress_start(struct progress *g, const char *name, uint64_t total)
{
	const char *base = strrchr(name, '/');

	memset(g, 0, sizeof(*g));
	g->name = base != NULL && base[1] != '\0' ? base + 1 : name;
	g->total = total;
	g->started_us = loop_clock_us();
	g->on = isatty(STDERR_FILENO) == 1;
}

void
progress_add(struct progress *g, uint64_t bytes)
{
	uint64_t now;

	g->done += bytes;
	if (g->total != 0 && g->done > g->total)
		g->total = g->done;
	if (!g->on)
		return;
	now = loop_clock_us();
	if (now - g->shown_us >= PROGRESS_EVERY_US)
		progress_show(g, now);
}

void
progress_end(struct progress *g)
{
	if (!g->on || g->shown_us == 0)
		return;
	progress_show(g, loop_clock_us());
	(void)fputc('\n', stderr);
}
