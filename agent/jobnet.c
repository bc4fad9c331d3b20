/* SPDX-License-Identifier: Apache-2.0 */
/* pasta and slirp4netns, as Debian has them; see the header. */
#include "config.h"

#include "agent/jobnet.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"

#define SLIRP_DNS "10.0.2.3"
#define PASTA_DNS "169.254.0.53"

static bool
is_slirp(const char *program)
{
	const char *slash = strrchr(program, '/');

	return strncmp(slash != NULL ? slash + 1 : program, "slirp", 5) == 0;
}

char *
jobnet_resolv(const char *program)
{
	/* Both answer for this machine's resolvers, wherever these listen. */
	return xasprintf("nameserver %s\n",
			 is_slirp(program) ? SLIRP_DNS : PASTA_DNS);
}

static void SBX_NORETURN
run_slirp(const char *program, pid_t target)
{
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%ld", (long)target);
	(void)execl(program, program, "--configure", "--mtu=65520",
		    "--disable-host-loopback", "--enable-sandbox",
		    "--enable-seccomp", pid, "tap0", (char *)NULL);
	_exit(127);
}

/* By a descriptor: it drops the right to follow another's /proc/PID/ns. */
static void SBX_NORETURN
run_pasta(const char *program, pid_t target)
{
	char net[64];
	int fd;

	(void)snprintf(net, sizeof(net), "/proc/%ld/ns/net", (long)target);
	fd = open(net, O_RDONLY); /* NOLINT(android-cloexec-open): for it */
	(void)snprintf(net, sizeof(net), "/proc/self/fd/%d", fd);
	(void)execl(program, program, "--foreground", "--quiet", "--config-net",
		    "--no-map-gw", "--dns-forward", PASTA_DNS, "-t", "none",
		    "-u", "none", "-T", "none", "-U", "none", "--runas", "0",
		    "--netns", net, (char *)NULL);
	_exit(127);
}

pid_t
jobnet_start(const char *program, pid_t target, int fd)
{
	sigset_t none;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* An inherited SIG_IGN makes pasta fail. */
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)dup2(fd, 1);
	(void)dup2(fd, 2);
	if (is_slirp(program))
		run_slirp(program, target);
	run_pasta(program, target);
}

bool
jobnet_connected(pid_t target)
{
	char path[64], *text = NULL;
	bool yes;

	(void)snprintf(path, sizeof(path), "/proc/%ld/net/route", (long)target);
	/* "Iface Destination Gateway …", in hex. */
	yes = file_read(path, 65536, &text, NULL) == 0 &&
	      strstr(text, "\t00000000\t") != NULL;
	free(text);
	return yes;
}
