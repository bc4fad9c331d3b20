/* SPDX-License-Identifier: Apache-2.0 */
/* Our own terminal; see the header. */
#include "config.h"

#include "cli/terminal.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"

/* Of the one terminal that a process has; read in signal handlers. */
static struct termios terminal_was;
static volatile sig_atomic_t terminal_is_raw;

void
terminal_restore(void)
{
	if (!terminal_is_raw)
		return;
	terminal_is_raw = 0;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal_was);
}

/* With a handler that is gone when it runs: the signal ends us then. */
static void
terminal_crash(int signo)
{
	terminal_restore();
	(void)raise(signo);
}

int
terminal_raw(void)
{
	static const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	const struct sigaction sa = {.sa_handler = terminal_crash,
				     .sa_flags = (int)SA_RESETHAND};
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &terminal_was) != 0)
		return E_SYS;
	raw = terminal_was;
	cfmakeraw(&raw);
	for (size_t i = 0; i < ARRAY_LEN(crashes); i++)
		(void)sigaction(crashes[i], &sa, NULL);
	(void)atexit(terminal_restore);
	terminal_is_raw = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0)
		return E_SYS;
	return 0;
}

void
terminal_size(uint16_t *cols, uint16_t *rows)
{
	struct winsize ws;

	*cols = *rows = 0;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) == 0) {
		*cols = ws.ws_col;
		*rows = ws.ws_row;
	}
}
