/* SPDX-License-Identifier: Apache-2.0 */
/* Process 1 of a job; see the header. No event loop, no log: little memory. */
#include "config.h"

#include "agent/jobinit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/jobkill.h"
#include "agent/jobmain.h"
#include "agent/jobns.h"
#include "agent/jobout.h"
#include "agent/jobroot.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"

struct init {
	const struct jobinit *o;
	bool new_mounts, new_net, new_pids;
	bool own_userns;   /* we are in one already: by ourselves, or in o's */
	pid_t main, agent; /* the agent that is beside the main process */
};

/* --- the other half ---------------------------------------------------- */

static void say(const struct init *in, const char *fmt, ...) SBX_PRINTF(2, 3);

static void
say(const struct init *in, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)send(in->o->channel, text, strlen(text), MSG_NOSIGNAL);
}

static int
say_fd(const struct init *in, const char *text, int fd)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = {.room = {0}};
	struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &c,
			   .msg_controllen = sizeof(c.room)};

	c.h.cmsg_level = SOL_SOCKET;
	c.h.cmsg_type = SCM_RIGHTS;
	c.h.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	return sendmsg(in->o->channel, &m, MSG_NOSIGNAL) == -1 ? E_SYS : 0;
}

/* Ends everything: as process 1 by ending, else one by one. */
static void SBX_NORETURN
end_all(const struct init *in)
{
	if (!in->new_pids)
		jobkill_descendants();
	_exit(0);
}

static void SBX_NORETURN
fail(const struct init *in, const char *step, int eno)
{
	say(in, "failed %s: %s", step, strerror(eno));
	end_all(in);
}

/* Waits for one word. */
static void
expect(const struct init *in, const char *word)
{
	char text[16];
	ssize_t n;

	do {
		n = recv(in->o->channel, text, sizeof(text) - 1, 0);
		if (n <= 0 && !(n < 0 && errno == EINTR))
			end_all(in);
		text[n > 0 ? n : 0] = '\0';
		if (strcmp(text, "term") == 0) { /* before it began */
			say(in, "exit 143 0");
			end_all(in);
		}
	} while (strcmp(text, word) != 0);
}

/* --- surroundings ------------------------------------------------------ */

static void
lack(const struct init *in, const char *what)
{
	say(in, "lack %s (%s)", what, strerror(errno));
}

/* Sockets on the job's loopback; who accepts there is the outer half. */
static void
make_outside(struct init *in)
{
	char **v = in->o->spec->outside;
	char text[40];
	int fd, r;

	for (size_t i = 0; v != NULL && v[i] != NULL; i++) {
		(void)snprintf(text, sizeof(text), "outside %zu", i);
		if ((r = jobout_listen(v[i], &fd)) == 0) {
			r = say_fd(in, text, fd);
			fd_close(&fd);
		}
		if (r != 0)
			say(in, "lack no endpoint at port %s (%s)", v[i],
			    err_text(r));
	}
}

static int
enter_user(struct init *in)
{
	if (in->own_userns || in->o->userns == -1)
		return 0;
	in->own_userns = true;
	return jobns_enter_user(in->o->userns);
}

static int
new_mounts(struct init *in)
{
	if (unshare(CLONE_NEWNS) == 0)
		return 0;
	/* Root that may do little: more in the job's user namespace. */
	if (in->own_userns || in->o->userns == -1)
		return -1;
	return enter_user(in) == 0 ? unshare(CLONE_NEWNS) : -1;
}

/* Mounts and the network while we are still root of the machine, if we are, so
 * that what is built cannot be taken apart in there. */
static void
make_outer(struct init *in)
{
	if (new_mounts(in) == 0)
		in->new_mounts = true;
	else
		lack(in, "no mount namespace");
	if (!in->o->spec->net_private)
		return;
	if (jobns_net(in->own_userns ? -1 : in->o->userns) != 0) {
		lack(in, "no network namespace");
		return;
	}
	in->new_net = true;
	make_outside(in);
}

static void
make_root(struct init *in)
{
	const struct jobinit *o = in->o;
	struct jobroot r = {
	    .fs = o->fs,
	    .rootfs = o->spec->rootfs,
	    .expose = o->spec->expose,
	    .scratch = o->spec->scratch,
	    .resolv = in->new_net ? o->resolv : NULL,
	    .userns = in->own_userns ? -1 : o->userns,
	    .uid = in->own_userns ? 0 : o->spec->uid,
	    .new_net = in->new_net,
	};
	struct strbuf lacks = {0};
	const char *step;
	int eno;

	if (!in->new_mounts && r.scratch != NULL && r.scratch[0] != NULL)
		fail(in, "scratch volumes", EPERM);
	if (!in->new_mounts)
		return;
	if (jobroot_enter(&r, &lacks, &step) != 0) {
		eno = errno;
		fail(in, step, eno);
	}
	if (lacks.len > 0)
		say(in, "lack %s", lacks.s);
	strbuf_clear(&lacks);
}

/* The others belong to the job's own user namespace: an agent in there puts
 * its sandboxes into namespaces, and must get back out of them. */
static void
make_inner(struct init *in)
{
	const struct jobinit *o = in->o;
	char host[14];

	if (enter_user(in) != 0)
		fail(in, "user namespace", errno);
	if (in->new_mounts && unshare(CLONE_NEWNS) != 0)
		lack(in, "no mount namespace of its own");
	if (unshare(CLONE_NEWIPC) != 0)
		lack(in, "no ipc namespace");
	if (unshare(CLONE_NEWUTS) == 0) {
		(void)snprintf(host, sizeof(host), "%.12s", o->spec->id);
		(void)!sethostname(host, strlen(host));
	} else {
		lack(in, "no uts namespace");
	}
	if (unshare(CLONE_NEWPID) == 0)
		in->new_pids = true;
	else
		lack(in, "no pid namespace");
}

/* --- the job's processes ----------------------------------------------- */

static pid_t
begin(struct init *in, enum jobmain_what what)
{
	const struct jobmain m = {.o = in->o,
				  .new_mounts = in->new_mounts,
				  .own_userns = in->own_userns};
	char why[300];
	pid_t pid;

	if (jobmain_start(&m, what, &pid, why, sizeof(why)) == 0)
		return pid;
	say(in, "failed %s", why);
	end_all(in);
}

static void
begin_all(struct init *in)
{
	const struct jobdef *s = in->o->spec;

	if (s->nfiles != 0)
		(void)begin(in, JOBMAIN_FILES);
	/* The first of these is the main process: with it the job ends. */
	if (s->mode != JOBDEF_COMMAND)
		*(jobdef_beside(s) ? &in->agent : &in->main) =
		    begin(in, JOBMAIN_AGENT);
	if (s->argv != NULL)
		in->main = begin(in, JOBMAIN_COMMAND);
	say(in, "started");
}

/* --- life -------------------------------------------------------------- */

static void
say_end(const struct init *in, int main_status)
{
	if (WIFSIGNALED(main_status))
		say(in, "exit -1 %d", WTERMSIG(main_status));
	else
		say(in, "exit %d 0", WEXITSTATUS(main_status));
}

static void
say_lost(const struct init *in, int status)
{
	if (WIFSIGNALED(status))
		say(in, "lost its agent was killed by signal %d (%s)",
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		say(in, "lost its agent ended (exit code %d)",
		    WEXITSTATUS(status));
}

/* True when one of those that the job consists of is among the dead. The main
 * process has the word if both are. */
static bool
reap(struct init *in)
{
	int status, main_status = 0, agent_status = 0;
	bool main_dead = false, agent_dead = false;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == in->main) {
			main_dead = true;
			main_status = status;
		} else if (pid == in->agent) {
			agent_dead = true;
			agent_status = status;
		}
	}
	if (main_dead)
		say_end(in, main_status);
	else if (agent_dead)
		say_lost(in, agent_status);
	return main_dead || agent_dead;
}

static void SBX_NORETURN
live(struct init *in, int sig_fd)
{
	struct pollfd p[2] = {{.fd = in->o->channel, .events = POLLIN},
			      {.fd = sig_fd, .events = POLLIN}};
	struct signalfd_siginfo si;
	char text[16];
	ssize_t n;

	for (;;) {
		(void)poll(p, 2, -1);
		if (p[1].revents != 0)
			(void)!read(sig_fd, &si, sizeof(si));
		if (reap(in))
			end_all(in);
		if (p[0].revents == 0)
			continue;
		n = recv(in->o->channel, text, sizeof(text) - 1, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			end_all(in);
		if (n == 4 && memcmp(text, "term", 4) == 0)
			(void)kill(-in->main, SIGTERM);
	}
}

/* Process 1. */
static void SBX_NORETURN
init_run(struct init *in, int *keep, size_t nkeep)
{
	sigset_t set;
	int sig_fd;

	/* Without a pid namespace we live on to kill the others, when the end
	 * of the channel says so. */
	(void)prctl(PR_SET_PDEATHSIG, in->new_pids ? SIGKILL : 0, 0, 0, 0);
	if (!in->new_pids)
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	else if (in->new_mounts &&
		 mount("proc", "/proc", "proc",
		       MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		lack(in, "no /proc of its own");
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	sig_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (sig_fd == -1)
		fail(in, "signalfd", errno);
	say(in, in->new_net ? "net" : "nonet");
	expect(in, "run");
	begin_all(in);
	/* What only the main process is to have. */
	for (size_t i = 0; i < nkeep; i++)
		if (keep[i] != in->o->channel && keep[i] != in->o->lock)
			fd_close(&keep[i]);
	live(in, sig_fd);
}

void
jobinit_run(const struct jobinit *ji)
{
	struct init in = {.o = ji};
	int keep[] = {ji->channel, ji->lock,      ji->userns,     ji->out[0],
		      ji->out[1],  ji->listen_fd, ji->control_fd, ji->ready_fd,
		      ji->exe,     ji->agent_out};
	pid_t pid;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "sbx-job-init", 0, 0, 0);
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	/* The job sees our command line: it need not know our paths. */
	if (ji->arg != NULL)
		memset(ji->arg, 0, strlen(ji->arg));
	(void)umask(022);
	jobns_close_but(keep, ARRAY_LEN(keep));
	expect(&in, "go");
	if (geteuid() != 0) {
		if (jobns_user_self() == 0)
			in.own_userns = true;
		else
			lack(&in, "no user namespace");
	}
	make_outer(&in);
	make_root(&in);
	make_inner(&in);
	/* A sibling of ours: the supervisor is to be its parent. */
	pid = jobns_fork(CLONE_PARENT);
	if (pid == 0)
		init_run(&in, keep, ARRAY_LEN(keep));
	if (pid == -1)
		fail(&in, "fork", errno);
	say(&in, "init %ld", (long)pid);
	_exit(0);
}
