/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that were handed over to a gateway. What crosses them we never
 * see, but while one is open its sandbox is in use, and the kernel tells
 * whether it is: by its inode.
 */
#ifndef SBX_AGENT_LENT_H
#define SBX_AGENT_LENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LENT_MAX 4096 /* remembered at a time; older ones are given up */

struct lent { /* zeroed is empty */
	ino_t *v;
	size_t n, cap;
};

void lent_add(struct lent *l, int fd);
/* Whether one is still open; forgets those that are not. Reads /proc, so not
 * to be asked all the time. */
bool lent_any(struct lent *l);
void lent_clear(struct lent *l);

#endif
