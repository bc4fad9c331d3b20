/* SPDX-License-Identifier: Apache-2.0 */
/* Lent connections: looked for in the kernel's lists of sockets. */
#include "config.h"

#include "agent/lent.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"

#define LENT_LINES 262144 /* of one list, that are looked at */

static int
lent_compare(const void *a, const void *b)
{
	const ino_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The nth word of a line, from 0. */
static struct strv
lent_word(struct strv line, unsigned nth)
{
	struct strv w = STRV_NULL;

	for (unsigned i = 0; i <= nth; i++) {
		while (line.len > 0 && *line.p == ' ')
			line = strv_from(line, 1);
		if (!strv_cut(&line, ' ', &w))
			return STRV_NULL;
	}
	return w;
}

/* Marks in seen[] those of l (sorted) that the list has. */
static void
lent_look(const struct lent *l, const char *path, unsigned nth, bool *seen)
{
	FILE *f = fopen(path, "re");
	char line[512];
	const ino_t *hit;
	uint64_t n;
	ino_t ino;

	if (f == NULL)
		return;
	for (unsigned i = 0;
	     i < LENT_LINES && fgets(line, sizeof(line), f) != NULL; i++) {
		line[strcspn(line, "\n")] = '\0';
		if (strv_parse_u64(lent_word(strv_of(line), nth), UINT64_MAX,
				   false, &n) != 0)
			continue;
		ino = (ino_t)n;
		hit = bsearch(&ino, l->v, l->n, sizeof(ino), lent_compare);
		if (hit != NULL)
			seen[hit - l->v] = true;
	}
	(void)fclose(f);
}

bool
lent_any(struct lent *l)
{
	bool *seen;
	size_t n = 0;

	if (l->n == 0)
		return false;
	qsort(l->v, l->n, sizeof(*l->v), lent_compare);
	seen = xcalloc(l->n, sizeof(*seen));
	lent_look(l, "/proc/self/net/unix", 6, seen);
	lent_look(l, "/proc/self/net/tcp", 9, seen);
	lent_look(l, "/proc/self/net/tcp6", 9, seen);
	for (size_t i = 0; i < l->n; i++) {
		if (seen[i])
			l->v[n++] = l->v[i];
	}
	free(seen);
	l->n = n;
	return n > 0;
}

void
lent_add(struct lent *l, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return;
	if (l->n == l->cap && l->cap >= 64)
		(void)lent_any(l); /* most of them are closed by now */
	if (l->n == l->cap && l->cap < LENT_MAX) {
		l->cap = l->cap != 0 ? 2 * l->cap : 16;
		l->v = xrealloc(l->v, l->cap * sizeof(*l->v));
	}
	if (l->n == l->cap) {
		memmove(l->v, l->v + 1, (l->n - 1) * sizeof(*l->v));
		l->n--;
	}
	l->v[l->n++] = st.st_ino;
}

void
lent_clear(struct lent *l)
{
	free(l->v);
	memset(l, 0, sizeof(*l));
}
