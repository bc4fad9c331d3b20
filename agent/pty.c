/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo terminals; see the header. */
#include "config.h"

#include "agent/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"

/* Of the newer headers: the other end, by no name. */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

void
pty_resize(int master, const struct pty_size *size)
{
	const struct winsize ws = {
	    .ws_col = size->cols != 0 ? size->cols : 80,
	    .ws_row = size->rows != 0 ? size->rows : 24,
	};

	(void)ioctl(master, TIOCSWINSZ, &ws);
}

int
pty_open(const struct pty_size *size, uid_t owner, int *master, int *slave)
{
	int m = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int s = -1, unlock = 0, eno;

	if (m != -1 && ioctl(m, TIOCSPTLCK, &unlock) == 0)
		s = ioctl(m, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s == -1) {
		eno = errno;
		fd_close(&m);
		errno = eno;
		return E_SYS;
	}
	if (owner != (uid_t)-1)
		(void)!fchown(s, owner, (gid_t)-1);
	pty_resize(m, size);
	*master = m;
	*slave = s;
	return 0;
}
