/* SPDX-License-Identifier: Apache-2.0 */
/* The local launcher with real supervisors: jobs that end in every way, that
 * outlive their launcher, and that leave nothing behind. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/launch.h"
#include "gateway/launchspec.h"
#include "net/loop.h"
#include "net/seqpkt.h"

#define ID   "0123456789abcdef01234567"
#define ID2  "aaaaaaaaaaaaaaaaaaaaaaaa"
#define WAIT 30 /* s, for the whole of a test */

struct fixture {
	char dir[64];
	char jobs[80];
	struct loop *loop;
	struct gw_conf *conf;
	struct launcher *l;
	struct launch *j;
	unsigned started, ready, ended;
	char *message, *http;
	struct launch_end end;
	char end_message[LAUNCH_TEXT];
};

static void
started_cb(struct launch *j, const char *message, void *arg)
{
	struct fixture *f = arg;

	assert_ptr_equal(j, f->j);
	f->started++;
	free(f->message);
	f->message = xstrdup(message);
}

static void
ready_cb(struct launch *j, const char *http, const char *control, void *arg)
{
	struct fixture *f = arg;

	assert_ptr_equal(j, f->j);
	assert_non_null(control);
	f->ready++;
	free(f->http);
	f->http = xstrdup(http);
}

static void
ended_cb(struct launch *j, const struct launch_end *end, void *arg)
{
	struct fixture *f = arg;

	assert_ptr_equal(j, f->j);
	f->ended++;
	f->end = *end;
	(void)snprintf(f->end_message, sizeof(f->end_message), "%s",
		       end->message);
	f->end.message = f->end_message;
	launch_drop(j);
	f->j = NULL;
}

static const struct launch_cbs cbs = {started_cb, ready_cb, ended_cb};

static void
make_launcher(struct fixture *f)
{
	const struct launch_options o = {.loop = f->loop,
					 .conf = f->conf,
					 .jobs_dir = f->jobs,
					 .worker_uid = (uid_t)-1};
	char *why = NULL;

	if (launcher_new(&o, "local", &f->l, &why) != 0)
		fail_msg("%s", why);
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	char self[4096], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)alarm(WAIT);
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/sbx-launch.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(chmod(f->dir, 0711), 0);
	(void)snprintf(f->jobs, sizeof(f->jobs), "%s/jobs", f->dir);
	self[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 3 && (slash = strrchr(self, '/')) != NULL; i++)
		*slash = '\0'; /* BUILD/tests/unit/NAME */
	f->loop = loop_new();
	f->conf = gwconf_new();
	launchconf_clear(&f->conf->launch);
	f->conf->launch.agent = xasprintf("%s/sbx-agent", self);
	f->conf->launch.outbound = xstrdup("none");
	f->conf->launch.expose = xcalloc(1, sizeof(char *));
	f->conf->launch.uid_base = 1879048192;
	f->conf->launch.uid_jobs = 64;
	f->conf->launch.parallel = 2;
	make_launcher(f);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	launcher_free(f->l);
	(void)rmdir(f->jobs);
	assert_int_equal(rmdir(f->dir), 0); /* nothing was left behind */
	loop_free(f->loop);
	gwconf_free(f->conf);
	free(f->message);
	free(f->http);
	free(f);
	(void)alarm(0);
	return 0;
}

static void
start(struct fixture *f, const char *id, const char *script,
      const struct launch_spec *more)
{
	const char *argv[] = {"/bin/sh", "-c", script};
	struct launch_spec s = *more;
	char *why = NULL;

	s.id = id;
	if (s.mode == LAUNCH_COMMAND) {
		s.argv = argv;
		s.nargv = 3;
	}
	if (launch_start(f->l, &s, &cbs, f, &f->j, &why) != 0)
		fail_msg("%s", why);
	assert_int_equal(f->started + f->ended, 0);
}

static void
until(struct fixture *f, const unsigned *count)
{
	while (*count == 0)
		loop_once(f->loop, true);
}

static char *
read_log(struct fixture *f, const char *id)
{
	char *path = xasprintf("%s/%s/log", f->jobs, id), *text = NULL;
	size_t len;

	if (file_read(path, 1 << 20, &text, &len) != 0)
		text = xstrdup("");
	free(path);
	return text;
}

static bool
is_there(struct fixture *f, const char *id, const char *name)
{
	char *path = xasprintf("%s/%s/%s", f->jobs, id, name);
	struct stat sb;
	bool yes = lstat(path, &sb) == 0;

	free(path);
	return yes;
}

/* Cleaning is done by others, meanwhile. */
static void
until_gone(struct fixture *f, const char *id, const char *name)
{
	while (is_there(f, id, name))
		(void)usleep(2000);
}

static void until_up(struct fixture *f);

/* Its launcher knows that it runs, too. */
static void
until_up_and_told(struct fixture *f)
{
	until(f, &f->started);
	until_up(f);
}

/* The job says "up" when it is ready for what is done to it. */
static void
until_up(struct fixture *f)
{
	for (bool up = false; !up; (void)usleep(2000)) {
		char *log = read_log(f, ID);

		up = strstr(log, "\"up\"") != NULL;
		free(log);
	}
}

static void
put(struct fixture *f, const char *dir, const char *name, const char *text)
{
	char *path = xasprintf("%s/%s/%s", f->dir, dir, name);

	assert_int_equal(file_write_atomic(path, text, strlen(text), 0600), 0);
	free(path);
}

static void
remove_job(struct fixture *f)
{
	launch_remove(f->l, ID);
	until_gone(f, ID, ".");
}

static const struct launch_spec plain = {.mode = LAUNCH_COMMAND};

/* --- tests ------------------------------------------------------------- */

static void
exits(void **state)
{
	static const struct launch_var env[] = {{"A", "1"}, {"B", "2"}},
				       secrets[] = {{"A", "3 \"ä\n"}};
	const struct launch_spec s = {.mode = LAUNCH_COMMAND,
				      .env = env,
				      .nenv = 2,
				      .secrets = secrets,
				      .nsecrets = 1};
	struct fixture *f = *state;
	char *log;

	start(f, ID, "echo \"$A$B\"; echo x >&2; exit 3", &s);
	until(f, &f->ended);
	assert_int_equal(f->started, 1);
	assert_int_equal(f->end.reason, LAUNCH_EXITED);
	assert_int_equal(f->end.code, 3);
	assert_int_equal(f->end.signal, 0);
	assert_string_equal(f->end_message, "");
	log = read_log(f, ID);
	assert_non_null(strstr(log, "\"s\":\"stdout\",\"d\":\"3 \\\""));
	assert_non_null(strstr(log, "\"s\":\"stdout\",\"d\":\"2\"}"));
	assert_non_null(strstr(log, "\"s\":\"stderr\",\"d\":\"x\"}"));
	free(log);
	assert_false(is_there(f, ID, "spec.json"));
	until_gone(f, ID, "fs");
	until_gone(f, ID, "job.sock");
	launch_remove(f->l, ID);
	until_gone(f, ID, ".");
}

static void
cannot_be_started(void **state)
{
	struct fixture *f = *state;
	const char *argv[] = {"/no/such/program"};
	const struct launch_spec s = {
	    .id = ID, .mode = LAUNCH_COMMAND, .argv = argv, .nargv = 1};
	struct launch *second;
	char *why = NULL;

	assert_int_equal(launch_start(f->l, &s, &cbs, f, &f->j, &why), 0);
	assert_int_equal(launch_start(f->l, &s, &cbs, f, &second, &why),
			 E_EXISTS);
	free(why);
	until(f, &f->ended);
	assert_int_equal(f->started, 0);
	assert_int_equal(f->end.reason, LAUNCH_UNSTARTED);
	assert_non_null(strstr(f->end_message, "/no/such/program: No such"));
	until_gone(f, ID, "fs");
	launch_remove(f->l, ID);
	until_gone(f, ID, ".");
}

static void
no_supervisor(void **state)
{
	struct fixture *f = *state;

	free(f->conf->launch.agent);
	f->conf->launch.agent = xstrdup("/no/such/agent");
	launcher_set_conf(f->l, f->conf);
	start(f, ID, "true", &plain);
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_UNSTARTED);
	assert_non_null(strstr(f->end_message, "/no/such/agent: No such"));
	assert_false(is_there(f, ID, "spec.json"));
	launch_remove(f->l, ID);
}

static void
stopped_with_grace(void **state)
{
	struct fixture *f = *state;

	start(f, ID,
	      "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done",
	      &plain);
	until(f, &f->started);
	until_up(f);
	launch_stop(f->j, 20000);
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_STOPPED);
	assert_int_equal(f->end.code, 7);
	until_gone(f, ID, "fs");
	launch_remove(f->l, ID);
}

/* It heeds no TERM, and neither does its daemon. */
static void
killed(void **state)
{
	struct fixture *f = *state;

	start(f, ID,
	      "trap '' TERM; (setsid sh -c 'sleep 1000 & sleep 1000' &); "
	      "echo up; sleep 1000",
	      &plain);
	until(f, &f->started);
	until_up(f);
	launch_stop(f->j, 1);
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_STOPPED);
	assert_int_equal(f->end.signal, SIGKILL);
	until_gone(f, ID, "fs");
	launch_remove(f->l, ID);
}

static void
stopped_before_it_began(void **state)
{
	struct fixture *f = *state;

	start(f, ID, "sleep 1000", &plain);
	launch_stop(f->j, 1000);
	until(f, &f->ended);
	assert_int_equal(f->started, 0);
	assert_int_equal(f->end.reason, LAUNCH_STOPPED);
	assert_false(is_there(f, ID, "spec.json"));
	launch_remove(f->l, ID);
}

/* Told anew by a gateway that does not know the grace of then. */
static void
stopped_again(void **state)
{
	struct fixture *f = *state;

	start(f, ID,
	      "trap 'echo term' TERM; echo up; while [ ! -e $HOME/go ]; do "
	      "sleep 0.01; done; exit 6",
	      &plain);
	until(f, &f->started);
	until_up(f);
	launch_stop(f->j, 3600000);
	for (bool told = false; !told; (void)usleep(2000)) {
		char *log = read_log(f, ID);

		told = strstr(log, "\"term\"") != NULL;
		free(log);
	}
	launcher_free(f->l);
	make_launcher(f);
	launch_adopt(f->l, ID, &cbs, f, &f->j);
	launch_stop_again(f->j, 1);
	f->started = 0;
	until(f, &f->started);
	(void)usleep(50000); /* a grace of 1 ms would be over */
	put(f, "jobs/" ID "/fs/data/root", "go", "");
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_STOPPED);
	assert_int_equal(f->end.code, 6);
	until_gone(f, ID, "fs");
	remove_job(f);

	f->ended = f->started = 0;
	start(f, ID, "echo up; sleep 1000", &plain);
	until(f, &f->started);
	launch_stop_again(f->j, 60000); /* the first that it hears of it */
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_STOPPED);
	until_gone(f, ID, "fs");
	remove_job(f);
}

/* At whatever point of its start a job is killed: it ends, and for good. */
static void
stopped_while_it_begins(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 24; i++) {
		f->started = f->ended = 0;
		start(f, ID, "echo up; sleep 1000", &plain);
		while (!is_there(f, ID, "log"))
			loop_once(f->loop, false);
		(void)usleep(i * i * 25); /* up to 13 ms */
		launch_stop(f->j, i % 2 ? 3600000 : 0);
		until(f, &f->ended);
		assert_int_equal(f->end.reason, LAUNCH_STOPPED);
		until_gone(f, ID, "fs");
		launch_remove(f->l, ID);
		until_gone(f, ID, ".");
	}
}

static void
times_out(void **state)
{
	const struct launch_spec s = {.mode = LAUNCH_COMMAND, .timeout_ms = 50};
	struct fixture *f = *state;

	start(f, ID, "sleep 1000", &s);
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_TIMEOUT);
	assert_non_null(strstr(f->end_message, "timed out"));
	until_gone(f, ID, "fs");
	launch_remove(f->l, ID);
}

static void
agent_gets_ready_and_is_adopted(void **state)
{
	static const struct launch_var env[] = {{"SBX_TOKEN", "t"},
						{"SBX_LISTEN", "tcp:1:1"}};
	const struct launch_spec s = {
	    .mode = LAUNCH_DEDICATED, .env = env, .nenv = 2};
	struct fixture *f = *state;
	char *want = xasprintf("unix:%s/" ID "/agent.sock", f->jobs);

	start(f, ID, NULL, &s);
	until(f, &f->ready);
	assert_int_equal(f->started, 1);
	assert_string_equal(f->http, want);

	launcher_free(f->l); /* the gateway goes, the job stays */
	f->started = f->ready = 0;
	make_launcher(f);
	launch_adopt(f->l, ID, &cbs, f, &f->j);
	assert_int_equal(f->started + f->ended, 0);
	until(f, &f->ready);
	assert_int_equal(f->started, 1);
	assert_string_equal(f->http, want);
	launch_stop(f->j, 5000);
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_STOPPED);
	assert_int_equal(f->end.code, 0);
	until_gone(f, ID, "fs");
	launch_remove(f->l, ID);
	free(want);
}

static void
ends_while_nobody_looks(void **state)
{
	struct fixture *f = *state;

	start(f, ID, "exit 4", &plain);
	until(f, &f->started);
	launcher_free(f->l);
	while (!is_there(f, ID, "exit.json"))
		(void)usleep(2000);
	make_launcher(f);
	f->started = 0;
	launch_adopt(f->l, ID, &cbs, f, &f->j);
	until(f, &f->ended);
	assert_int_equal(f->started, 0);
	assert_int_equal(f->end.reason, LAUNCH_EXITED);
	assert_int_equal(f->end.code, 4);
	until_gone(f, ID, "fs");
	launch_remove(f->l, ID);
}

static void
supervisor_is_killed(void **state)
{
	struct fixture *f = *state;
	char *path = xasprintf("%s/" ID "/pid", f->jobs), *text;
	size_t len;

	start(f, ID, "sleep 1000", &plain);
	until(f, &f->started);
	assert_int_equal(file_read(path, 32, &text, &len), 0);
	assert_int_equal(kill((pid_t)strtol(text, NULL, 10), SIGKILL), 0);
	free(text);
	free(path);
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_LOST);
	while (!is_there(f, ID, "exit.json"))
		(void)usleep(2000);
	assert_false(is_there(f, ID, "fs"));
	assert_false(is_there(f, ID, "agent.sock"));
	launch_remove(f->l, ID);
	until_gone(f, ID, ".");
}

static void
never_was(void **state)
{
	struct fixture *f = *state;

	launch_adopt(f->l, ID, &cbs, f, &f->j);
	assert_int_equal(f->ended, 0);
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_LOST);
}

static bool
known_cb(const char *id, void *arg)
{
	(void)arg;
	return strcmp(id, ID2) == 0;
}

static void
sweep_ends_strangers(void **state)
{
	struct fixture *f = *state;

	start(f, ID2, "true", &plain);
	until(f, &f->ended);
	f->started = f->ended = 0;
	start(f, ID, "sleep 1000", &plain);
	until(f, &f->started);
	launcher_free(f->l);
	make_launcher(f);
	launch_sweep(f->l, known_cb, NULL);
	until_gone(f, ID, ".");
	assert_true(is_there(f, ID2, "exit.json"));
	launch_remove(f->l, ID2);
	until_gone(f, ID2, ".");
}

static void
more_than_may_start_at_once(void **state)
{
	enum { N = 7 };
	struct fixture *f = *state;
	struct fixture each[N] = {0};
	const char *argv[] = {"/bin/true"};
	struct launch_spec s = {
	    .mode = LAUNCH_COMMAND, .argv = argv, .nargv = 1};
	char ids[N][LAUNCH_ID_LEN + 1], *why;

	for (int i = 0; i < N; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "%024x", i + 1);
		s.id = ids[i];
		assert_int_equal(
		    launch_start(f->l, &s, &cbs, &each[i], &each[i].j, &why),
		    0);
	}
	for (int i = 0; i < N; i++) {
		while (each[i].ended == 0)
			loop_once(f->loop, true);
		assert_int_equal(each[i].end.reason, LAUNCH_EXITED);
		free(each[i].message);
	}
	for (int i = 0; i < N; i++) {
		launch_remove(f->l, ids[i]);
		until_gone(f, ids[i], ".");
	}
}

/* --- the freezer -------------------------------------------------------- */

static void
pauses(void **state)
{
	struct fixture *f = *state;
	char *dir = xasprintf("%s/group", f->dir),
	     *file = xasprintf("%s/cgroup.freeze", dir);
	const char *why = NULL;

	start(f, ID, "echo up; sleep 1000", &plain);
	assert_int_equal(launch_pause(f->j, true, &why), E_NOTFOUND);
	until_up_and_told(f);
	assert_int_equal(launch_pause(f->j, true, &why), E_UNSUPPORTED);
	assert_non_null(strstr(why, "no control group"));
	assert_false(launch_paused(f->j));
	/* A directory that looks like one. */
	assert_int_equal(mkdir(dir, 0700), 0);
	put(f, "jobs/" ID, "cgroup", dir);
	put(f, "group", "cgroup.freeze", "0\n");
	put(f, "group", "cgroup.events", "populated 0\nfrozen 0\n");
	assert_int_equal(launch_pause(f->j, true, &why), E_UNSUPPORTED);
	put(f, "group", "cgroup.events", "populated 1\nfrozen 0\n");
	assert_int_equal(launch_pause(f->j, true, &why), 0);
	assert_true(launch_paused(f->j));
	assert_int_equal(launch_pause(f->j, false, &why), 0);
	assert_false(launch_paused(f->j));
	launch_stop(f->j, 0);
	until(f, &f->ended);
	until_gone(f, ID, "fs");
	(void)unlink(file);
	put(f, "group", "cgroup.events", "");
	free(file);
	file = xasprintf("%s/cgroup.events", dir);
	(void)unlink(file);
	(void)rmdir(dir);
	launch_remove(f->l, ID);
	until_gone(f, ID, ".");
	free(file);
	free(dir);
}

/* --- file systems ------------------------------------------------------ */

static const char writes[] = "echo x > $HOME/f; echo up; sleep 1000";
#define F "fs/data/root/f"

static void
keeps_a_file_system(void **state)
{
	struct fixture *f = *state;
	struct launch_tree t;
	char *path = xasprintf("%s/" ID "/fs", f->jobs);

	start(f, ID, writes, &plain);
	assert_int_equal(launch_keep(f->l, ID), E_NOTFOUND); /* not yet */
	assert_int_equal(launch_tree(f->l, ID, &t), E_NOTFOUND);
	until_up_and_told(f);
	assert_int_equal(launch_keep(f->l, ID2), E_NOTFOUND);
	assert_int_equal(launch_keep(f->l, ID), 0);
	assert_int_equal(launch_keep(f->l, ID), 0);
	assert_int_equal(launch_tree(f->l, ID, &t), 0);
	assert_string_equal(t.dir, path);
	assert_int_equal(t.ids, geteuid() == 0 ? LAUNCHCONF_UIDS : 1);
	assert_true((t.base != geteuid()) == (geteuid() == 0));
	free(t.dir);
	launch_stop(f->j, 0);
	until(f, &f->ended);
	until_gone(f, ID, "job.sock");
	assert_int_equal(launch_tree(f->l, ID, &t), 0);
	free(t.dir);
	launch_unkeep(f->l, ID);
	assert_int_equal(launch_tree(f->l, ID, &t), 0);
	free(t.dir);
	assert_true(is_there(f, ID, F));
	launch_unkeep(f->l, ID);
	assert_int_equal(launch_tree(f->l, ID, &t), E_NOTFOUND);
	until_gone(f, ID, "fs");
	until_gone(f, ID, "keep");
	assert_int_equal(launch_keep(f->l, ID), E_NOTFOUND);
	assert_true(is_there(f, ID, "exit.json"));
	remove_job(f);
	free(path);
}

/* Wanted for a while, as for a copy of what runs, and not at the end. */
static void
keeps_for_a_while(void **state)
{
	struct fixture *f = *state;

	start(f, ID, writes, &plain);
	until_up_and_told(f);
	assert_int_equal(launch_keep(f->l, ID), 0);
	while (!is_there(f, ID, "keep"))
		(void)usleep(2000);
	launch_unkeep(f->l, ID);
	until_gone(f, ID, "keep");
	launch_stop(f->j, 0);
	until(f, &f->ended);
	until_gone(f, ID, "fs");
	remove_job(f);
}

/* Who wanted it is gone: a gateway that adopts the job, or finds it ended. */
static void
keeps_for_nobody(void **state)
{
	struct fixture *f = *state;
	char *path = xasprintf("%s/" ID2 "/job.sock", f->jobs);
	int fd;

	start(f, ID, writes, &plain);
	until_up_and_told(f);
	assert_int_equal(launch_keep(f->l, ID), 0);
	while (!is_there(f, ID, "keep"))
		(void)usleep(2000);
	launcher_free(f->l);
	make_launcher(f);
	launch_adopt(f->l, ID, &cbs, f, &f->j);
	f->started = 0;
	until(f, &f->started);
	launch_stop(f->j, 0);
	until(f, &f->ended);
	until_gone(f, ID, "fs");
	until_gone(f, ID, "keep");
	remove_job(f);

	f->started = f->ended = 0;
	start(f, ID2, "sleep 1000", &plain);
	until(f, &f->started);
	assert_int_equal(launch_keep(f->l, ID2), 0);
	while (!is_there(f, ID2, "keep"))
		(void)usleep(2000);
	launcher_free(f->l);
	assert_int_equal(seqpkt_connect(path, &fd), 0);
	assert_int_equal(write(fd, "kill", 4), 4);
	while (!is_there(f, ID2, "exit.json") || is_there(f, ID2, "job.sock"))
		(void)usleep(2000);
	(void)close(fd);
	assert_true(is_there(f, ID2, "fs"));
	make_launcher(f);
	launch_sweep(f->l, known_cb, NULL);
	until_gone(f, ID2, "fs");
	launch_remove(f->l, ID2);
	until_gone(f, ID2, ".");
	free(path);
}

static void
start_prepared(struct fixture *f, const char *by, const char *script)
{
	const char *prepare[] = {"/bin/sh", "-c", by};
	const struct launch_spec s = {
	    .mode = LAUNCH_COMMAND, .prepare = prepare, .nprepare = 3};

	start(f, ID, script, &s);
}

static void
is_prepared(void **state)
{
	struct fixture *f = *state;
	char *log;

	start_prepared(
	    f,
	    "umask 022; echo \"$SBX_FS $SBX_FS_UID $SBX_FS_UIDS"
	    ".$SBX_FS_ROOTFS.\" > data/root/f; chmod 644 data/root/f",
	    "cat $HOME/f");
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_EXITED);
	log = read_log(f, ID);
	if (geteuid() == 0)
		assert_non_null(strstr(log, ID "/fs 1879048192 65536..\""));
	else
		assert_non_null(strstr(log, ID "/fs 0 0..\""));
	free(log);
	until_gone(f, ID, "fs");
	remove_job(f);
}

static void
cannot_be_prepared(void **state)
{
	struct fixture *f = *state;

	start_prepared(f, "echo first; echo no such archive >&2; exit 3",
		       "echo runs");
	until(f, &f->ended);
	assert_int_equal(f->started, 0);
	assert_int_equal(f->end.reason, LAUNCH_UNSTARTED);
	assert_string_equal(f->end_message, "no such archive");
	until_gone(f, ID, "fs");
	remove_job(f);
	f->ended = 0;
	start_prepared(f, "kill -9 $$", "echo runs");
	until(f, &f->ended);
	assert_int_equal(f->end.reason, LAUNCH_UNSTARTED);
	assert_string_equal(f->end_message, "the file system: signal 9");
	until_gone(f, ID, "fs");
	remove_job(f);
}

/* A stop ends it, and so does one under a gateway that found it there; neither
 * waits for the grace. */
static void
stopped_while_prepared(void **state)
{
	struct fixture *f = *state;

	for (int again = 0; again < 2; again++) {
		f->ended = 0;
		start_prepared(f, "echo > at; sleep 1000", "echo runs");
		while (!is_there(f, ID, "fs/at"))
			loop_once(f->loop, false);
		if (again) {
			launcher_free(f->l);
			make_launcher(f);
			launch_adopt(f->l, ID, &cbs, f, &f->j);
			loop_once(f->loop, false);
		}
		assert_int_equal(f->started + f->ended, 0);
		launch_stop(f->j, 3600000);
		launch_stop(f->j, 7200000);
		until(f, &f->ended);
		assert_int_equal(f->started, 0);
		assert_int_equal(f->end.reason, LAUNCH_STOPPED);
		assert_string_equal(f->end_message,
				    "stopped before it was started");
		until_gone(f, ID, "fs");
		remove_job(f);
	}
}

static void
spec_text(void **state)
{
	static const struct launch_var env[] = {{"A", "1"},
						{"B", "2"},
						{"A", "3"},
						{"C", "4"}},
				       secrets[] = {{"C", "5"}, {"C", "6"}};
	char *none[] = {NULL};
	const char *argv[] = {"a b", "\"\n"};
	const struct gw_launch conf = {.expose = none, .outbound = NULL};
	const struct launchspec_place p = {
	    .conf = &conf, .uid = 70000, .slot = 91, .worker_uid = 99};
	const struct launch_spec s = {.id = ID,
				      .mode = LAUNCH_COMMAND,
				      .argv = argv,
				      .nargv = 2,
				      .env = env,
				      .nenv = 4,
				      .secrets = secrets,
				      .nsecrets = 2,
				      .timeout_ms = 5};
	struct strbuf b = {0};

	(void)state;
	launchspec_add(&b, &s, &p);
	assert_string_equal(
	    b.s, "{\"id\":\"" ID "\",\"mode\":\"command\","
		 "\"argv\":[\"a b\",\"\\\"\\n\"],"
		 "\"env\":{\"B\":\"2\",\"A\":\"3\",\"C\":\"6\"},\"expose\":[],"
		 "\"net_private\":true,\"best_effort\":false,\"timeout_ms\":5,"
		 "\"uid\":70000,\"uids\":65536,\"slice\":20500,"
		 "\"slice_last\":20999,\"worker_uid\":99}\n");
	strbuf_clear(&b);
}

/* Endpoints outside, for a command, for a host, and where they are anyway. */
static void
spec_outside(void **state)
{
	static const struct launch_var env[] = {{"N", "own"},
						{"SBX_BASE_ENV", "{}"}};
	char *none[] = {NULL};
	const char *why, *argv[] = {"x"};
	struct gw_launch conf = {.expose = none};
	const struct launchspec_place p = {.conf = &conf,
					   .worker_uid = (uid_t)-1};
	struct launch_spec s = {.id = ID, .argv = argv, .nargv = 1};
	struct strbuf b = {0};

	(void)state;
	assert_int_equal(
	    outside_add(&conf.outside, STRV("M http://localhost:80/v1"), &why),
	    0);
	assert_int_equal(
	    outside_add(&conf.outside, STRV("N http://[::1]:81"), &why), 0);
	outside_choose(&conf.outside, NULL, 0, UINT16_MAX);
	s.env = env;
	s.nenv = 1;
	launchspec_add(&b, &s, &p);
	assert_non_null(strstr(b.s, "\"env\":{\"N\":\"own\","
				    "\"M\":\"http://127.0.0.1:20000/v1\"},"));
	assert_non_null(strstr(b.s, "\"outside\":[\"20000 localhost:80\","
				    "\"20001 [::1]:81\"]"));
	strbuf_reset(&b);
	s.mode = LAUNCH_HOST;
	s.nenv = 2;
	launchspec_add(&b, &s, &p);
	assert_non_null(
	    strstr(b.s, "\"env\":{\"N\":\"own\",\"SBX_BASE_ENV\":\""
			"{\\\"M\\\":\\\"http://127.0.0.1:20000/v1\\\","
			"\\\"N\\\":\\\"http://127.0.0.1:20001\\\"}\"},"));
	strbuf_reset(&b);
	s.mode = LAUNCH_DEDICATED;
	s.nenv = 0;
	conf.net_host = true;
	launchspec_add(&b, &s, &p);
	assert_non_null(strstr(b.s, "\"env\":{\"M\":\"http://localhost:80/v1\","
				    "\"N\":\"http://[::1]:81\"},"));
	assert_null(strstr(b.s, "\"outside\""));
	strbuf_clear(&b);
	outside_clear(&conf.outside);
}

/* Without a network, whatever jobs have otherwise. */
static void
spec_closed(void **state)
{
	char *none[] = {NULL};
	const char *why, *argv[] = {"x"};
	struct gw_launch conf = {.expose = none};
	const struct launchspec_place p = {
	    .conf = &conf, .outbound = "/bin/net", .worker_uid = (uid_t)-1};
	struct launch_spec s = {.id = ID, .argv = argv, .nargv = 1};
	struct strbuf b = {0};

	(void)state;
	assert_int_equal(
	    outside_add(&conf.outside, STRV("M http://localhost:80/v1"), &why),
	    0);
	outside_choose(&conf.outside, NULL, 0, UINT16_MAX);
	launchspec_add(&b, &s, &p);
	assert_non_null(strstr(b.s, "\"outbound\":\"/bin/net\""));
	for (int host = 0; host < 2; host++) {
		conf.net_host = host;
		s.closed = true;
		strbuf_reset(&b);
		launchspec_add(&b, &s, &p);
		assert_non_null(strstr(b.s, "\"net_private\":true"));
		assert_null(strstr(b.s, "outbound"));
		assert_null(strstr(b.s, "outside"));
		assert_null(strstr(b.s, "localhost"));
	}
	strbuf_clear(&b);
	outside_clear(&conf.outside);
}

static void
ids(void **state)
{
	(void)state;
	assert_true(launch_id_valid(STRV(ID)));
	assert_false(launch_id_valid(STRV("")));
	assert_false(launch_id_valid(STRV("0123456789abcdef0123456")));
	assert_false(launch_id_valid(STRV("0123456789ABCDEF01234567")));
	assert_false(launch_id_valid(STRV("../../../../../../../../")));
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids),
	    cmocka_unit_test(spec_text),
	    cmocka_unit_test(spec_outside),
	    cmocka_unit_test(spec_closed),
	    T(exits),
	    T(cannot_be_started),
	    T(no_supervisor),
	    T(stopped_with_grace),
	    T(killed),
	    T(stopped_before_it_began),
	    T(stopped_again),
	    T(stopped_while_it_begins),
	    T(times_out),
	    T(agent_gets_ready_and_is_adopted),
	    T(ends_while_nobody_looks),
	    T(supervisor_is_killed),
	    T(never_was),
	    T(sweep_ends_strangers),
	    T(more_than_may_start_at_once),
	    T(pauses),
	    T(keeps_a_file_system),
	    T(keeps_for_a_while),
	    T(keeps_for_nobody),
	    T(is_prepared),
	    T(cannot_be_prepared),
	    T(stopped_while_prepared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
