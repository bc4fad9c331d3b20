/* SPDX-License-Identifier: Apache-2.0 */
/* Leases on user ids, in turn; see the header. */
#include "config.h"

#include "agent/uidpool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

struct uidpool {
	uid_t first;
	unsigned n;
	unsigned next; /* where to look first */
	unsigned leased;
	int lock; /* -1: none */
	bool used[];
};

int
uidpool_new(uid_t first, uid_t last, const char *lock_path,
	    struct uidpool **out)
{
	unsigned n = last - first + 1;
	struct uidpool *p;
	int fd = -1;

	assert(first <= last);
	if (lock_path != NULL) {
		fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			  0600);
		if (fd == -1)
			return err_from_errno(errno);
	}
	p = xcalloc(1, sizeof(*p) + n);
	p->first = first;
	p->n = n;
	p->lock = fd;
	*out = p;
	return 0;
}

void
uidpool_free(struct uidpool *p)
{
	if (p == NULL)
		return;
	fd_close(&p->lock);
	free(p);
}

/* Byte N of the file stands for uid N. */
static bool
uidpool_lock(struct uidpool *p, unsigned i, short type)
{
	struct flock fl = {
	    .l_type = type,
	    .l_whence = SEEK_SET,
	    .l_start = (off_t)(p->first + i),
	    .l_len = 1,
	};

	if (p->lock == -1)
		return true;
	return fcntl(p->lock, F_OFD_SETLK, &fl) == 0;
}

/* True when some process (or zombie) on the machine has it: an agent that was
 * killed may have left some, and nobody holds their lock then. */
static bool
uidpool_in_use(uid_t uid)
{
	errno = 0;
	return getpriority(PRIO_USER, uid) != -1 || errno != ESRCH;
}

int
uidpool_lease(struct uidpool *p, uid_t *out)
{
	for (unsigned k = 0; k < p->n; k++) {
		unsigned i = (p->next + k) % p->n;
		uid_t uid = p->first + i;

		if (p->used[i] || !uidpool_lock(p, i, F_WRLCK))
			continue;
		if (uidpool_in_use(uid)) {
			(void)uidpool_lock(p, i, F_UNLCK);
			continue;
		}
		p->used[i] = true;
		p->next = (i + 1) % p->n;
		p->leased++;
		*out = uid;
		return 0;
	}
	return E_FULL;
}

int
uidpool_claim(struct uidpool *p, uid_t uid)
{
	unsigned i = uid - p->first;

	if (uid < p->first || i >= p->n)
		return E_INVALID;
	if (p->used[i] || !uidpool_lock(p, i, F_WRLCK))
		return E_BUSY;
	p->used[i] = true;
	p->leased++;
	return 0;
}

void
uidpool_return(struct uidpool *p, uid_t uid)
{
	unsigned i = uid - p->first;

	assert(uid >= p->first && i < p->n && p->used[i]);
	p->used[i] = false;
	p->leased--;
	(void)uidpool_lock(p, i, F_UNLCK);
}

unsigned
uidpool_leased(const struct uidpool *p)
{
	return p->leased;
}
