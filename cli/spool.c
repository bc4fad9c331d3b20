/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input as a file; see the header. */
#include "config.h"

#include "cli/spool.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fdio.h"

#define SPOOL_PIECE 65536

static int
spool_file(void)
{
	FILE *f = tmpfile();
	int fd = -1;

	if (f != NULL) {
		fd = dup(fileno(f));
		(void)fclose(f);
	}
	return fd;
}

int
spool_stdin(uint64_t *length)
{
	char buf[SPOOL_PIECE];
	int fd = spool_file();
	ssize_t n;

	*length = 0;
	while (fd != -1 && (n = read(STDIN_FILENO, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || fd_write_all(fd, buf, (size_t)n) != 0)
			fd_close(&fd);
		else
			*length += (uint64_t)n;
	}
	if (fd != -1 && lseek(fd, 0, SEEK_SET) == -1)
		fd_close(&fd);
	return fd;
}
