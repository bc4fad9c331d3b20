/* SPDX-License-Identifier: Apache-2.0 */
/* agent/proc, agent/spawn: programs from start to reaping. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/proc.h"
#include "agent/pty.h"
#include "base/err.h"
#include "base/str.h"
#include "net/buf.h"
#include "net/loop.h"

#define WAIT_MS 10000

struct probe {
	struct loop *l;
	struct proc_env *env;
	struct proc *p;
	struct strbuf out[2];
	struct proc_exit x;
	bool exited, closed, drained;
	size_t pause_at; /* pauses when so much was read */
	bool drop;       /* output is only counted */
	size_t total;
};

static int
setup(void **state)
{
	static struct probe pr;

	memset(&pr, 0, sizeof(pr));
	pr.l = loop_new();
	pr.env = proc_env_new(pr.l);
	*state = &pr;
	return 0;
}

static int
teardown(void **state)
{
	struct probe *pr = *state;

	proc_free(pr->p);
	while (proc_env_count(pr->env) > 0)
		loop_once(pr->l, true);
	proc_env_free(pr->env);
	loop_free(pr->l);
	strbuf_clear(&pr->out[0]);
	strbuf_clear(&pr->out[1]);
	/* No child is left, not even a zombie. */
	return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : -1;
}

static void
output_cb(struct proc *p, unsigned stream, const char *data, size_t n,
	  void *arg)
{
	struct probe *pr = arg;

	assert_false(pr->exited && !pr->drop);
	pr->total += n;
	if (!pr->drop)
		strbuf_add(&pr->out[stream], data, n);
	if (pr->pause_at != 0 && pr->total >= pr->pause_at)
		proc_pause(p);
}

static void
exited_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
	struct probe *pr = arg;

	(void)p;
	assert_false(pr->exited);
	pr->exited = true;
	pr->x = *x;
}

static void
drained_cb(struct proc *p, void *arg)
{
	(void)p;
	((struct probe *)arg)->drained = true;
}

static void
closed_cb(struct proc *p, void *arg)
{
	struct probe *pr = arg;

	(void)p;
	assert_true(pr->exited);
	pr->closed = true;
}

static const struct proc_cbs cbs = {
    .output = output_cb,
    .exited = exited_cb,
    .stdin_drained = drained_cb,
    .closed = closed_cb,
};

static int
start_argv(struct probe *pr, char *const *argv, const char *cwd,
	   const struct spawn_confine *c, struct proc_options o,
	   struct spawn_error *err)
{
	static char path[] = "PATH=/usr/bin:/bin", var[] = "VAR=value";
	static char *env[] = {path, var, NULL};
	struct spawn_spec s = {
	    .argv = argv, .envp = env, .home_fd = -1, .cwd = cwd, .confine = c};

	return proc_start(pr->env, &s, &o, &cbs, pr, &pr->p, err);
}

static void
start(struct probe *pr, const char *script, struct proc_options o)
{
	static char sh[] = "sh", dash_c[] = "-c";
	char *argv[] = {sh, dash_c, strdup(script), NULL};
	struct spawn_error err;

	assert_int_equal(start_argv(pr, argv, "/", NULL, o, &err), 0);
	free(argv[2]);
}

static void
give_up_cb(void *arg)
{
	*(bool *)arg = true;
}

/* Runs the loop until *flag, or fails after a while. */
static void
until(struct probe *pr, const bool *flag)
{
	bool late = false;
	struct timer t;

	timer_init(&t, pr->l, give_up_cb, &late);
	timer_set(&t, WAIT_MS);
	while (!*flag && !late)
		loop_once(pr->l, true);
	timer_clear(&t);
	assert_true(*flag);
}

static void
test_output_and_code(void **state)
{
	struct probe *pr = *state;

	start(pr, "pwd; echo $VAR; echo oops >&2; exit 7",
	      (struct proc_options){0});
	assert_true(proc_running(pr->p));
	until(pr, &pr->closed);
	assert_string_equal(pr->out[0].s, "/\nvalue\n");
	assert_string_equal(pr->out[1].s, "oops\n");
	assert_int_equal(pr->x.code, 7);
	assert_int_equal(pr->x.signal, 0);
	assert_false(pr->x.timed_out);
	assert_false(proc_running(pr->p));
	assert_int_equal(proc_signal(pr->p, SIGKILL), E_NOTFOUND);
}

static int
fail_with(struct probe *pr, const char *prog, const char *cwd, const char *step)
{
	char *argv[] = {strdup(prog), NULL};
	struct spawn_error err = {0, ""};

	assert_int_equal(
	    start_argv(pr, argv, cwd, NULL, (struct proc_options){0}, &err),
	    E_INVALID);
	free(argv[0]);
	assert_string_equal(err.step, step);
	assert_int_equal(proc_env_count(pr->env), 0);
	return err.eno;
}

static int
count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void
test_cannot_start(void **state)
{
	struct probe *pr = *state;
	int before = count_fds();

	assert_int_equal(fail_with(pr, "/nonexistent", "/", "execve"), ENOENT);
	assert_int_equal(fail_with(pr, "nonexistent", "/", "execve"), ENOENT);
	assert_int_equal(fail_with(pr, "", "/", "execve"), ENOENT);
	assert_int_equal(fail_with(pr, "/etc", "/", "execve"), EACCES);
	assert_int_equal(fail_with(pr, "/etc/passwd", "/", "execve"), EACCES);
	assert_int_equal(fail_with(pr, "true", "/nonexistent", "chdir"),
			 ENOENT);
	assert_int_equal(count_fds(), before);
}

static void
test_killed(void **state)
{
	struct probe *pr = *state;

	start(pr, "kill -TERM $$", (struct proc_options){0});
	until(pr, &pr->exited);
	assert_int_equal(pr->x.code, -1);
	assert_int_equal(pr->x.signal, SIGTERM);
}

/* What was ignored or blocked here is not so in the program. */
static void
test_signals_clean(void **state)
{
	struct probe *pr = *state;
	unsigned long long blocked = 1, ignored = 1;

	(void)signal(SIGPIPE, SIG_IGN);
	start(pr, "grep -E '^Sig(Blk|Ign|Pnd)' /proc/self/status",
	      (struct proc_options){0});
	until(pr, &pr->exited);
	assert_int_equal(sscanf(pr->out[0].s,
				"SigPnd: %*x SigBlk: %llx SigIgn: %llx",
				&blocked, &ignored),
			 2);
	assert_int_equal(blocked, 0);
	/* Signals 32 and 33 are glibc's own; whoever was started by its
	 * posix_spawn() (by make) has them ignored and cannot change it. */
	assert_int_equal(ignored & ~(3ULL << 31), 0);
}

static void
test_no_descriptor_leaks(void **state)
{
	struct probe *pr = *state;
	int fd;

	/* What the test was started with is not the subject. */
	for (fd = 3; fd < 1024; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	start(pr, "ls /proc/self/fd", (struct proc_options){0});
	until(pr, &pr->exited);
	close(fd);
	assert_string_equal(pr->out[0].s, "0\n1\n2\n3\n"); /* 3: ls's own */
}

static void
test_timeout(void **state)
{
	struct probe *pr = *state;

	start(pr, "echo before; sleep 1000 & sleep 1000",
	      (struct proc_options){.timeout_ms = 100});
	until(pr, &pr->closed); /* the whole group went */
	assert_string_equal(pr->out[0].s, "before\n");
	assert_int_equal(pr->x.signal, SIGKILL);
	assert_true(pr->x.timed_out);
	assert_true(pr->x.duration_ms >= 90);
}

/* A descendant that keeps the pipe delays the end only shortly, and is not
 * killed by it. */
static void
test_descendant_holds_pipe(void **state)
{
	struct probe *pr = *state;
	pid_t pid;

	start(pr, "sleep 1000 & echo $!", (struct proc_options){0});
	until(pr, &pr->exited);
	assert_false(pr->closed);
	pid = (pid_t)atoi(pr->out[0].s);
	assert_int_equal(kill(pid, 0), 0);
	proc_free(pr->p);
	pr->p = NULL;
	loop_once(pr->l, false);
	assert_int_equal(kill(pid, 0), 0);
	kill(pid, SIGKILL);
}

/* The last stage of a pipeline that outlives the shell is still heard. */
static void
test_late_descendant(void **state)
{
	struct probe *pr = *state;
	int i;

	/* What comes within the grace is taken; on a busy machine it may come
	 * after it, so one of many is enough. */
	for (i = 0; i < 50 && pr->out[0].len == 0; i++) {
		proc_free(pr->p);
		pr->p = NULL;
		pr->exited = pr->closed = false;
		start(pr, "(sleep 0.01; echo late) & exit 0",
		      (struct proc_options){0});
		until(pr, &pr->exited);
	}
	assert_int_equal(pr->out[0].len, 5);
	assert_string_equal(pr->out[0].s, "late\n");
}

/* Nothing is lost when the reader is slow and the program is long gone. */
static void
test_back_pressure(void **state)
{
	struct probe *pr = *state;
	bool wait = false;
	struct timer t;

	pr->drop = true;
	pr->pause_at = 1;
	start(pr, "head -c 300000 /dev/zero; echo end >&2",
	      (struct proc_options){0});
	timer_init(&t, pr->l, give_up_cb, &wait);
	timer_set(&t, 200);
	while (!wait)
		loop_once(pr->l, true);
	timer_clear(&t);
	assert_false(pr->exited);
	assert_true(pr->total <= 65536);
	while (!pr->exited) {
		proc_resume(pr->p);
		loop_once(pr->l, true);
	}
	assert_int_equal(pr->total, 300004);
}

static void
test_stdin(void **state)
{
	struct probe *pr = *state;
	char block[1024];

	memset(block, 'x', sizeof(block));
	start(pr, "wc -c", (struct proc_options){.want_stdin = true});
	for (int i = 0; i < 1000; i++)
		bufq_add(proc_stdin(pr->p), block, sizeof(block));
	proc_stdin_flush(pr->p);
	until(pr, &pr->drained);
	proc_stdin_end(pr->p);
	assert_null(proc_stdin(pr->p));
	until(pr, &pr->exited);
	assert_string_equal(pr->out[0].s, "1024000\n");
}

static void
test_stdin_unread(void **state)
{
	struct probe *pr = *state;
	char block[1024] = {0};

	start(pr, "exec true", (struct proc_options){.want_stdin = true});
	for (int i = 0; i < 1000; i++)
		bufq_add(proc_stdin(pr->p), block, sizeof(block));
	proc_stdin_end(pr->p);
	until(pr, &pr->exited);
	assert_int_equal(pr->x.code, 0);
}

static void
test_stop_then_kill(void **state)
{
	struct probe *pr = *state;

	start(pr, "trap '' TERM; echo ready; while :; do sleep 0.05; done",
	      (struct proc_options){0});
	while (pr->out[0].len == 0)
		loop_once(pr->l, true);
	proc_stop(pr->p, 100);
	until(pr, &pr->exited);
	assert_int_equal(pr->x.signal, SIGKILL);
	assert_false(pr->x.timed_out);
}

static void
test_freed_while_running(void **state)
{
	struct probe *pr = *state;

	start(pr, "sleep 1000", (struct proc_options){0});
	proc_free(pr->p);
	pr->p = NULL;
	assert_int_equal(proc_env_count(pr->env), 1);
	while (proc_env_count(pr->env) > 0)
		loop_once(pr->l, true);
	assert_false(pr->exited);
}

/* Every line of many short commands arrives; descriptors come back. */
static void
test_many_short(void **state)
{
	struct probe *pr = *state;
	int before = count_fds();

	for (int i = 0; i < 300; i++) {
		pr->exited = pr->closed = false;
		strbuf_reset(&pr->out[0]);
		start(pr, "echo line", (struct proc_options){0});
		until(pr, &pr->exited);
		assert_string_equal(pr->out[0].s, "line\n");
		proc_free(pr->p);
		pr->p = NULL;
		loop_once(pr->l, false);
	}
	assert_int_equal(count_fds(), before);
}

static void
test_confined_identity(void **state)
{
	struct probe *pr = *state;
	struct spawn_confine c = {.uid = 3200000000U,
				  .gid = 3200000000U,
				  .ruleset = -1,
				  .cgroup = -1,
				  .nlimits = 1};
	char prog[] = "sh", dash_c[] = "-c",
	     text[] = "id; ulimit -n; grep NoNewPrivs /proc/self/status";
	char *argv[] = {prog, dash_c, text, NULL};
	struct spawn_error err;

	if (getuid() != 0)
		skip();
	c.limits[0].resource = RLIMIT_NOFILE;
	c.limits[0].limit.rlim_cur = c.limits[0].limit.rlim_max = 77;
	assert_int_equal(
	    start_argv(pr, argv, "/", &c, (struct proc_options){0}, &err), 0);
	until(pr, &pr->exited);
	assert_string_equal(pr->out[0].s,
			    "uid=3200000000 gid=3200000000 "
			    "groups=3200000000\n77\nNoNewPrivs:\t1\n");
	assert_int_equal(getuid(), 0);
}

static const struct pty_size size = {.cols = 90, .rows = 7};

static void
test_terminal(void **state)
{
	struct probe *pr = *state;

	start(pr, "stty size; cat; exit 3",
	      (struct proc_options){.want_stdin = true, .tty = &size});
	bufq_add(proc_stdin(pr->p), "x\n\004", 3);
	proc_stdin_flush(pr->p);
	until(pr, &pr->exited);
	assert_int_equal(pr->x.code, 3);
	assert_null(pr->out[1].s);
	assert_non_null(strstr(pr->out[0].s, "7 90\r\n"));
	assert_non_null(strstr(pr->out[0].s, "x\r\n"));
}

/* All that was written before its end is told before its end is, though it is
 * only read later, and somebody keeps the terminal open. */
static void
test_terminal_late_reader(void **state)
{
	struct probe *pr = *state;
	bool late = false;
	struct timer t;

	start(pr, "trap '' HUP; sleep 3 & head -c 9000 /dev/zero | tr '\\0' x",
	      (struct proc_options){.tty = &size});
	proc_pause(pr->p);
	while (proc_running(pr->p))
		loop_once(pr->l, true);
	/* Longer than descendants are waited for. */
	timer_init(&t, pr->l, give_up_cb, &late);
	timer_set(&t, 200);
	while (!late)
		loop_once(pr->l, true);
	timer_clear(&t);
	assert_false(pr->exited);
	proc_resume(pr->p);
	until(pr, &pr->exited);
	assert_int_equal(pr->total, 9000);
}

static void
test_terminal_stopped(void **state)
{
	struct probe *pr = *state;
	char *end;
	long pid;

	start(pr, "trap '' HUP TERM; set -m; sleep 1000 & echo $!; wait",
	      (struct proc_options){.want_stdin = true, .tty = &size});
	while (pr->total < 3)
		loop_once(pr->l, true);
	pid = strtol(pr->out[0].s, &end, 10);
	assert_true(pid > 1);
	proc_stop(pr->p, 50);
	until(pr, &pr->exited);
	assert_int_equal(pr->x.signal, SIGKILL);
	/* Killed, in a group of its own; an orphan somebody may yet reap. */
	for (int i = 0; i < 1000 && kill((pid_t)pid, 0) == 0; i++) {
		char path[64], text[256] = "";
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
		if ((f = fopen(path, "r")) == NULL)
			return;
		(void)!fgets(text, sizeof(text), f);
		(void)fclose(f);
		if (strstr(text, ") Z ") != NULL)
			return;
		(void)usleep(10000);
	}
	assert_int_not_equal(kill((pid_t)pid, 0), 0);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(test_output_and_code),
	    T(test_cannot_start),
	    T(test_killed),
	    T(test_signals_clean),
	    T(test_no_descriptor_leaks),
	    T(test_timeout),
	    T(test_descendant_holds_pipe),
	    T(test_late_descendant),
	    T(test_back_pressure),
	    T(test_stdin),
	    T(test_stdin_unread),
	    T(test_stop_then_kill),
	    T(test_freed_while_running),
	    T(test_many_short),
	    T(test_confined_identity),
	    T(test_terminal),
	    T(test_terminal_late_reader),
	    T(test_terminal_stopped),
	};
#undef T

	return cmocka_run_group_tests(tests, NULL, NULL);
}
