/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A passphrase is asked for on the controlling terminal, without echo, before
 * the loop runs; BatchMode asks nobody.
 */
#include "config.h"

#include "tunnel/passphrase.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "tunnel/expand.h"
#include "tunnel/options.h"

#define PASS_MAX_BYTES 1024

/* One line without its end; E_DENIED at the end of the terminal. */
static int
line_read(int fd, char *buf, size_t cap)
{
	size_t n = 0;
	ssize_t got;
	char c;

	for (;;) {
		got = read(fd, &c, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return E_DENIED;
		if (c == '\n' || c == '\r')
			break;
		if (n + 1 == cap)
			return E_LIMIT;
		buf[n++] = c;
	}
	buf[n] = '\0';
	return 0;
}

static int
terminal_ask(const char *prompt, char **out)
{
	char buf[PASS_MAX_BYTES];
	struct termios old, quiet;
	int fd, r = E_SYS;

	fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return E_DENIED;
	if (tcgetattr(fd, &old) != 0) {
		fd_close(&fd);
		return E_DENIED;
	}
	quiet = old;
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
	if (tcsetattr(fd, TCSAFLUSH, &quiet) == 0 &&
	    fd_write_all(fd, prompt, strlen(prompt)) == 0)
		r = line_read(fd, buf, sizeof(buf));
	(void)tcsetattr(fd, TCSAFLUSH, &old);
	(void)!fd_write_all(fd, "\n", 1);
	fd_close(&fd);
	if (r == 0)
		*out = xstrdup(buf);
	mem_secure_zero(buf, sizeof(buf));
	return r;
}

int
passphrase_get(const struct options *o, const char *key_path, char **out)
{
	char *path, *prompt;
	int r;

	if (o->passphrase_file != NULL) {
		path = expand_path(o, o->passphrase_file);
		r = file_read_secret(path, out);
		free(path);
		return r;
	}
	if (o->batch)
		return E_DENIED;
	prompt = xasprintf("Enter passphrase for key '%s': ", key_path);
	r = terminal_ask(prompt, out);
	free(prompt);
	return r;
}
