/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short programs. One is done when it has ended and both of its pipes have, or
 * a moment after its end when somebody else holds them. It leads a process
 * group, which is killed at the deadline.
 */
#include "config.h"

#include "gateway/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "net/loop.h"

#define LINGER_MS 200
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct command {
	struct loop *loop;
	command_done_cb done;
	void *arg;
	pid_t pid;
	int pidfd, fds[2];
	bool timed_out;
	int status;
	struct strbuf text[2];
	struct event ended, readable[2];
	struct timer deadline;
	struct task task;
};

static void
free_command(struct command *c)
{
	timer_clear(&c->deadline);
	task_cancel(&c->task);
	if (c->pidfd != -1)
		(void)event_del(&c->ended);
	fd_close(&c->pidfd);
	for (int i = 0; i < 2; i++) {
		if (c->fds[i] != -1)
			(void)event_del(&c->readable[i]);
		fd_close(&c->fds[i]);
		strbuf_clear(&c->text[i]);
	}
	loop_defer_free(c->loop, c, NULL);
}

static const char *
trimmed(struct strbuf *b)
{
	while (b->len > 0 && strchr(" \t\r\n", b->s[b->len - 1]) != NULL)
		b->s[--b->len] = '\0';
	return b->s != NULL ? b->s : "";
}

static void
done(void *arg)
{
	struct command *c = arg;
	int status = c->status;

	if (c->timed_out) {
		strbuf_adds(&c->text[1], " (timed out)");
		status = -1;
	}
	c->done(status, trimmed(&c->text[0]), trimmed(&c->text[1]), c->arg);
	free_command(c);
}

static void
done_if_over(struct command *c)
{
	if (c->pid == 0 && c->fds[0] == -1 && c->fds[1] == -1)
		task_post(c->loop, &c->task);
}

static void
ended_cb(evutil_socket_t fd, short what, void *arg)
{
	struct command *c = arg;
	siginfo_t si = {0};

	(void)what;
	if (waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG) == 0 &&
	    si.si_pid == 0)
		return;
	c->status =
	    si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
	c->pid = 0;
	(void)event_del(&c->ended);
	fd_close(&c->pidfd);
	timer_set(&c->deadline, LINGER_MS);
	done_if_over(c);
}

static void
readable_cb(evutil_socket_t fd, short what, void *arg)
{
	struct command *c = arg;
	int i = (int)fd == c->fds[0] ? 0 : 1;
	char buf[4096];
	ssize_t n = read((int)fd, buf, sizeof(buf));
	size_t room = COMMAND_OUTPUT_MAX - c->text[i].len;

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		strbuf_add(&c->text[i], buf,
			   (size_t)n < room ? (size_t)n : room);
		return;
	}
	(void)event_del(&c->readable[i]);
	fd_close(&c->fds[i]);
	done_if_over(c);
}

static void
deadline_cb(void *arg)
{
	struct command *c = arg;

	if (c->pid == 0) { /* somebody else holds its pipes */
		done(c);
		return;
	}
	c->timed_out = true;
	(void)kill(-c->pid, SIGKILL);
}

static void
become(char *const *argv, char **env, const int *out)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int s = 1; s < NSIG; s++)
		(void)sigaction(s, &sa, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setpgid(0, 0);
	(void)dup2(null, 0);
	(void)dup2(out[0], 1);
	(void)dup2(out[1], 2);
	(void)execvpe(argv[0], argv, env);
}

static pid_t
spawn(char *const *argv, const int *out, int *eno)
{
	char *env[5];
	static const char *const passed[] = {"PATH", "HOME", "LANG", "TZ"};
	volatile int failed = 0;
	sigset_t all, old;
	size_t n = 0;
	pid_t pid;

	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		if (getenv(passed[i]) != NULL)
			env[n++] =
			    xasprintf("%s=%s", passed[i], getenv(passed[i]));
	env[n] = NULL;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	/* The master is not to be copied for a short program. */
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork) */
	pid = vfork();
	if (pid == 0) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Vfork) */
		become(argv, env, out);
		failed = errno; /* the memory is shared until _exit */
		_exit(127);
	}
	*eno = pid < 0 ? errno : failed;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	while (n > 0)
		free(env[--n]);
	if (pid > 0 && *eno != 0)
		(void)waitpid(pid, NULL, 0);
	return *eno == 0 ? pid : -1;
}

static int
start(struct command *c, char *const *argv)
{
	int out[2] = {-1, -1}, fds[2], eno = 0;

	for (int i = 0; i < 2; i++) {
		if (pipe2(fds, O_CLOEXEC) != 0) {
			eno = errno;
			break;
		}
		c->fds[i] = fds[0];
		out[i] = fds[1];
		(void)!fd_set_nonblock(fds[0]);
		(void)event_assign(&c->readable[i], loop_base(c->loop), fds[0],
				   EV_READ | EV_PERSIST, readable_cb, c);
		(void)event_add(&c->readable[i], NULL);
	}
	if (eno == 0 && (c->pid = spawn(argv, out, &eno)) == -1)
		c->pid = 0;
	fd_close(&out[0]);
	fd_close(&out[1]);
	if (eno == 0) {
		c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
		if (c->pidfd == -1)
			eno = errno;
	}
	return eno;
}

struct command *
command_start(struct loop *l, char *const *argv, uint64_t timeout_ms,
	      command_done_cb fn, void *arg)
{
	struct command *c = xcalloc(1, sizeof(*c));
	int eno;

	c->loop = l;
	c->done = fn;
	c->arg = arg;
	c->pidfd = c->fds[0] = c->fds[1] = -1;
	c->status = -1;
	timer_init(&c->deadline, l, deadline_cb, c);
	task_init(&c->task, done, c);
	if ((eno = start(c, argv)) != 0) {
		strbuf_addf(&c->text[1], "%s: %s", argv[0], strerror(eno));
		task_post(l, &c->task);
		return c;
	}
	(void)event_assign(&c->ended, loop_base(l), c->pidfd,
			   EV_READ | EV_PERSIST, ended_cb, c);
	(void)event_add(&c->ended, NULL);
	timer_set(&c->deadline, timeout_ms);
	return c;
}

void
command_cancel(struct command *c)
{
	if (c->pid != 0) {
		(void)kill(-c->pid, SIGKILL);
		(void)waitpid(c->pid, NULL, 0);
	}
	free_command(c);
}
