/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-agent: start, signals, idleness and the end. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agentconf.h"
#include "agent/api.h"
#include "agent/baseenv.h"
#include "agent/check.h"
#include "agent/control.h"
#include "agent/descend.h"
#include "agent/host.h"
#include "agent/jobcmd.h"
#include "agent/nemo.h"
#include "agent/portscan.h"
#include "agent/sandbox.h"
#include "agent/walls.h"
#include "agent/work.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "net/httpd.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"

#define MAIN_UID_LOCK     "/run/sbx-agent.uids"
#define MAIN_STOP_MS      6000 /* for what is killed to be gone */
#define MAIN_CLOSE_MS     2000 /* for clients to take their last bytes */
#define MAIN_NEMO_BACKLOG 4096
#define MAIN_POLL_MS      5
#define MAIN_KILL_MS      20 /* between two looks for what must die */
#define MAIN_FILES        1048576
#define MAIN_DISK_MS      30000 /* then a disk that does not answer is an error */

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum main_phase { MAIN_RUNS, MAIN_GRACE, MAIN_KILL, MAIN_CLOSE };

struct agent {
	struct agentconf conf;
	struct loop *loop;
	struct work *work;
	struct proc_env *procs;
	struct baseenv base;
	struct host *host;    /* host mode, or */
	struct sandbox *root; /* dedicated mode */
	struct api *api;
	struct control *control;
	struct listener *listener;
	struct nemo *nemo; /* NULL: not asked for */
	struct listener *nemo_listener;
	struct portscan_own own;
	struct timer idle;
	uint64_t busy_ms; /* when it was last seen in use */
	struct timer stop;
	enum main_phase phase;
	uint64_t phase_ms; /* when it began */
	int status;
};

/* --- process ----------------------------------------------------------- */

/* Descriptors 0-2 exist, all others end at execve; what others made us ignore
 * is heeded again (our children would inherit it); no core, no debugger. */
static void
main_process(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < 3);
	if (fd >= 0)
		(void)close(fd);
	for (fd = 0; fd < 3; fd++)
		(void)!fd_set_cloexec(fd, false);
	if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
		for (fd = 3; fd < 1024; fd++)
			(void)!fd_set_cloexec(fd, true);
	}
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	(void)umask(022);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	/* Orphans of sandboxes come to us, to be reaped. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	(void)fd_raise_limit(MAIN_FILES);
}

/* --- connections ------------------------------------------------------- */

static void
main_accepted(int fd, const struct addr *peer, void *arg)
{
	static const struct stream_cbs none = {0};
	struct agent *a = arg;
	struct stream *st = stream_take_fd(a->loop, fd, &none, NULL);

	(void)httpd_serve(api_httpd(a->api), st, peer, NULL);
}

static void
main_listen(struct agent *a)
{
	const struct listen_options o = {
	    .mode = a->conf.socket_mode,
	    .uid = a->conf.control_uid,
	    .gid = (gid_t)-1,
	};
	char text[ADDR_TEXT_MAX];
	int fd, r;

	(void)addr_text(&a->conf.listen, text);
	fd = a->conf.listen_fd;
	r = fd != -1 ? fd_set_nonblock(fd)
		     : listener_bind(&a->conf.listen, &o, &fd);
	if (r != 0)
		log_fatal("agent.listen", "address=%s error=\"%s\"", text,
			  err_text(r));
	portscan_own_add(&a->own, fd);
	a->listener = listener_take_fd(a->loop, fd, main_accepted, a);
	if (a->conf.token == NULL && !addr_is_unix(&a->conf.listen))
		log_warn("agent.open",
			 "reason=\"no SBX_TOKEN: whoever reaches "
			 "%s may do everything\"",
			 text);
}

static void
main_nemo_accepted(int fd, const struct addr *peer, void *arg)
{
	static const struct stream_cbs none = {0};
	struct agent *a = arg;
	struct stream *st = stream_take_fd(a->loop, fd, &none, NULL);

	(void)httpd_serve(nemo_httpd(a->nemo), st, peer, NULL);
}

/* Beside our own API: its line on stdout is what its users wait for. */
static void
main_nemo(struct agent *a)
{
	const struct listen_options lo = {.backlog = MAIN_NEMO_BACKLOG};
	const struct nemo_options o = {a->loop, a->work, a->root};
	struct addr at = {.len = sizeof(at.u)};
	char text[ADDR_TEXT_MAX];
	int fd, r;

	if ((r = listener_bind(&a->conf.nemo, &lo, &fd)) != 0)
		log_fatal("agent.listen", "address=%s error=\"%s\"",
			  addr_text(&a->conf.nemo, text), err_text(r));
	portscan_own_add(&a->own, fd);
	if (getsockname(fd, &at.u.sa, &at.len) != 0)
		at = a->conf.nemo;
	a->nemo = nemo_new(&o);
	a->nemo_listener = listener_take_fd(a->loop, fd, main_nemo_accepted, a);
	(void)printf("exec_server on %s:%u\n", addr_ip_text(&at, text),
		     (unsigned)addr_port(&at));
	(void)fflush(stdout);
}

/* --- end --------------------------------------------------------------- */

/* Nothing of the sandboxes is left: no process, no home. */
static bool
main_quiet(struct agent *a)
{
	if (a->host != NULL && host_busy(a->host))
		return false;
	return proc_env_count(a->procs) == 0 && !descend_any();
}

static void
main_set_phase(struct agent *a, enum main_phase phase)
{
	a->phase = phase;
	a->phase_ms = loop_now_ms(a->loop);
	timer_set(&a->stop, 0);
}

/* Does anything run that was asked to end? The processes that only hold
 * sandboxes' namespaces were not. */
static bool
main_any(struct agent *a)
{
	if (a->host != NULL && host_walls(a->host)->borrow != NULL)
		return host_any_process(a->host);
	return descend_any();
}

/* Whoever heeds TERM ends by itself meanwhile. */
static void
main_grace(struct agent *a, uint64_t ms)
{
	if (ms >= a->conf.grace_ms || !main_any(a))
		main_set_phase(a, MAIN_KILL);
	else
		timer_set(&a->stop, MAIN_POLL_MS);
}

static void
main_kill(struct agent *a, uint64_t ms)
{
	struct sandbox *sb;

	while (a->host != NULL && (sb = host_next(a->host, NULL)) != NULL)
		host_delete(a->host, sb, "exited", NULL);
	if (main_quiet(a) || ms >= MAIN_STOP_MS) {
		main_set_phase(a, MAIN_CLOSE);
		return;
	}
	if (descend_any())
		(void)descend_kill(SIGKILL);
	timer_set(&a->stop, MAIN_KILL_MS);
}

/* True when it has no connection any more. */
static bool
main_closed(struct httpd *s, uint64_t ms)
{
	if (httpd_count(s) == 0)
		return true;
	httpd_drain(s);
	if (ms > MAIN_CLOSE_MS)
		httpd_close_all(s);
	return false;
}

static void
main_close(struct agent *a, uint64_t ms)
{
	bool closed = main_closed(api_httpd(a->api), ms);

	if (a->nemo != NULL && !main_closed(nemo_httpd(a->nemo), ms))
		closed = false;
	if (closed)
		loop_stop(a->loop);
	else
		timer_set(&a->stop, MAIN_POLL_MS);
}

static void
main_stop_cb(void *arg)
{
	struct agent *a = arg;
	uint64_t ms = loop_now_ms(a->loop) - a->phase_ms;

	switch (a->phase) {
	case MAIN_RUNS:
		break;
	case MAIN_GRACE:
		main_grace(a, ms);
		break;
	case MAIN_KILL:
		main_kill(a, ms);
		break;
	case MAIN_CLOSE:
		main_close(a, ms);
		break;
	}
}

/* Nothing new; everything that runs ends; then so do we. */
static void
main_stop(struct agent *a, const char *why)
{
	log_info("agent.stop", "reason=\"%s\"", why);
	listener_close(a->listener);
	httpd_drain(api_httpd(a->api));
	if (a->nemo != NULL) {
		listener_close(a->nemo_listener);
		httpd_drain(nemo_httpd(a->nemo));
	}
	if (descend_any())
		(void)descend_kill(SIGTERM);
	main_set_phase(a, MAIN_GRACE);
}

static void
main_signal_cb(int sig, void *arg)
{
	struct agent *a = arg;

	if (sig == SIGCHLD) {
		proc_env_reap(a->procs);
		/* It may have been the last one. */
		if (a->phase == MAIN_GRACE || a->phase == MAIN_KILL)
			timer_set(&a->stop, 0);
	} else if (a->phase == MAIN_RUNS) {
		main_stop(a, sig == SIGINT ? "SIGINT" : "SIGTERM");
	} else if (a->phase == MAIN_GRACE) { /* asked again */
		main_set_phase(a, MAIN_KILL);
	}
}

static uint64_t
main_active_ms(struct agent *a)
{
	uint64_t ms = api_active_ms(a->api);

	if (a->busy_ms > ms)
		ms = a->busy_ms;
	if (a->nemo != NULL && nemo_active_ms(a->nemo) > ms)
		ms = nemo_active_ms(a->nemo);
	return ms;
}

static void
main_idle_cb(void *arg)
{
	struct agent *a = arg;
	uint64_t now = loop_now_ms(a->loop), quiet;

	if (a->phase != MAIN_RUNS)
		return;
	if (!api_idle(a->api) || (a->nemo != NULL && !nemo_idle(a->nemo))) {
		a->busy_ms = now;
		timer_set(&a->idle, sandbox_look_ms(a->conf.idle_ms));
		return;
	}
	quiet = now - main_active_ms(a);
	if (quiet < a->conf.idle_ms) {
		timer_set(&a->idle, a->conf.idle_ms - quiet);
	} else {
		main_stop(a, "idle");
	}
}

/* --- start ------------------------------------------------------------- */

static void
main_host(struct agent *a)
{
	const struct host_options o = {
	    .homes = a->conf.homes,
	    .capacity = a->conf.capacity,
	    .best_effort = a->conf.best_effort,
	    .uid_first = a->conf.uid_first,
	    .uid_last = a->conf.uid_last,
	    .uid_lock = MAIN_UID_LOCK,
	    .cgroup = a->conf.cgroup,
	    .base = &a->base,
	    .resume_ms = a->conf.resume_ms,
	};
	char *why = NULL;

	if (host_new(a->loop, a->procs, a->work, &o, &a->host, &why) != 0)
		log_fatal("agent.host", "reason=\"host mode refused: %s\"",
			  why);
	if (strcmp(host_isolation(a->host), "full") != 0)
		log_warn("agent.isolation",
			 "isolation=%s reason=\"SBX_ISOLATION=best-effort: "
			 "sandboxes are not kept apart as they should be\"",
			 host_isolation(a->host));
}

static void
main_control(struct agent *a)
{
	const struct control_options o = {
	    .loop = a->loop,
	    .host = a->host,
	    .root = a->root,
	    .own = &a->own,
	    .path = a->conf.control,
	    .uid = a->conf.control_uid,
	};
	char *why = NULL;

	if (control_new(&o, &a->control, &why) != 0)
		log_fatal("agent.control", "reason=\"%s\"", why);
}

static void
main_start(struct agent *a)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGCHLD};
	struct api_options o = {0};

	a->loop = loop_new();
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		loop_on_signal(a->loop, signals[i], main_signal_cb, a);
	a->work = work_new(a->loop, MAIN_DISK_MS);
	a->procs = proc_env_new(a->loop);
	if (a->conf.host_mode)
		main_host(a);
	else
		a->root =
		    sandbox_new_dedicated(a->procs, a->loop, a->conf.proxy_dir);
	if (a->root != NULL)
		work_lane_init(&a->root->files, a->work, WORK_THREADS_MAX);
	a->base.above = a->root != NULL;
	baseenv_take(&a->base, a->conf.base_env, NULL);
	a->conf.base_env = NULL;
	if (a->root != NULL) {
		a->root->runs.place.base = &a->base;
		a->root->runs.place.resume_ms = a->conf.resume_ms;
	}
	if (a->conf.control != NULL)
		main_control(a);
	o.loop = a->loop;
	o.work = a->work;
	o.host = a->host;
	o.root = a->root;
	o.base = &a->base;
	o.token = a->conf.token;
	o.own = &a->own;
	a->api = api_new(&o);
	timer_init(&a->idle, a->loop, main_idle_cb, a);
	timer_init(&a->stop, a->loop, main_stop_cb, a);
	main_listen(a);
	if (a->conf.has_nemo)
		main_nemo(a);
	if (a->conf.idle_ms != 0)
		timer_set(&a->idle, a->conf.idle_ms);
}

static void
main_announce(struct agent *a)
{
	static const struct walls none = {0};
	const struct walls *w = a->host != NULL ? host_walls(a->host) : &none;
	char text[ADDR_TEXT_MAX];

	log_info("agent.ready",
		 "version=%s mode=%s listen=%s isolation=%s landlock_abi=%d "
		 "namespaces=%s cgroup=%s seccomp=%s",
		 PACKAGE_VERSION, a->host != NULL ? "host" : "dedicated",
		 addr_text(&a->conf.listen, text),
		 a->host != NULL ? host_isolation(a->host) : "none",
		 walls_landlock_abi(w), w->borrow != NULL ? "yes" : "no",
		 w->cgroup != NULL ? "yes" : "no", w->seccomp ? "yes" : "no");
	if (a->conf.ready_fd != -1) {
		(void)!write(a->conf.ready_fd, "", 1);
		fd_close(&a->conf.ready_fd);
	}
}

static void
main_end(struct agent *a)
{
	if (addr_is_unix(&a->conf.listen) && a->conf.listen_fd == -1)
		(void)unlink(a->conf.listen.u.un.sun_path);
	if (a->conf.control != NULL && *a->conf.control == '/')
		(void)unlink(a->conf.control);
	if (!main_quiet(a)) {
		/* Something of a sandbox will not die: leave it be. */
		log_error("agent.stop", "error=\"not everything has ended\"");
		exit(1);
	}
	api_tunnels_close(a->api);
	httpd_close_all(api_httpd(a->api));
	if (a->nemo != NULL)
		httpd_close_all(nemo_httpd(a->nemo));
	loop_once(a->loop, false);
	if (!work_drain(a->work, MAIN_CLOSE_MS)) {
		log_error("agent.stop", "error=\"the disk does not answer\"");
		exit(1);
	}
	loop_once(a->loop, false);
	api_free(a->api);
	nemo_free(a->nemo);
	control_free(a->control);
	if (a->root != NULL)
		sandbox_drop(a->root);
	host_free(a->host);
	baseenv_clear(&a->base);
	timer_clear(&a->idle);
	timer_clear(&a->stop);
	work_free(a->work);
	proc_env_free(a->procs);
	loop_free(a->loop);
	agentconf_clear(&a->conf);
}

static int
main_check(bool json)
{
	struct agentconf conf;
	struct strbuf b = {0};
	struct check c;
	char *why = NULL;
	int verdict;

	if (agentconf_read(&conf, &why) != 0) {
		(void)fprintf(stderr, "sbx-agent: %s\n", why);
		free(why);
		agentconf_clear(&conf);
		return 2;
	}
	check_run(&c, &conf);
	if (json)
		check_json(&c, &b);
	else
		check_text(&c, &b);
	(void)fputs(b.s, stdout);
	strbuf_clear(&b);
	verdict = (int)c.verdict;
	check_clear(&c);
	agentconf_clear(&conf);
	return verdict;
}

static int
main_options(int argc, char **argv)
{
	if (strcmp(argv[1], "job") == 0)
		return jobcmd_main(argc - 2, argv + 2);
	if (strcmp(argv[1], "check") == 0 && argc == 2)
		return main_check(false);
	if (strcmp(argv[1], "check") == 0 && argc == 3 &&
	    strcmp(argv[2], "--json") == 0)
		return main_check(true);
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		(void)printf("sbx-agent %s\n", PACKAGE_VERSION);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		(void)printf(
		    "usage: sbx-agent [check [--json] | job ... | --help | "
		    "--version]\n"
		    "Runs commands in sandboxes for an HTTP API.\n"
		    "check says what isolation this machine gives: 0 full, "
		    "1 host mode\nwould be refused, 3 less "
		    "(SBX_ISOLATION=best-effort).\n"
		    "job supervises one job for sbx-gateway.\n"
		    "Configured by environment variables:\n"
		    "  SBX_LISTEN=unix:/path | tcp:ip:port, or SBX_PORT=8000\n"
		    "  SBX_TOKEN=...         wanted as X-Sandbox-Token\n"
		    "  SBX_HOST_MODE=1       many sandboxes\n"
		    "  SBX_HOMES=/sbx/homes  where they live\n"
		    "  SBX_CAPACITY=N        at most so many\n"
		    "  SBX_UIDS=FIRST-LAST   of 20000-64999: the sandboxes'\n"
		    "  SBX_IDLE_TIMEOUT=S    exit after S idle seconds\n"
		    "  SBX_RESUME=60         seconds a lost client is waited "
		    "for\n"
		    "  SBX_GRACE=3           seconds from TERM to KILL at the "
		    "end\n"
		    "  SBX_ISOLATION=required | best-effort\n"
		    "  SBX_CGROUP=off | /dir where their control groups are "
		    "made\n"
		    "  SBX_PROXY_DIR=/path   of socket files; not in host "
		    "mode\n"
		    "  TB_EXEC_PORT=N, TB_EXEC_BIND=127.0.0.1\n"
		    "                        NeMo's exec server as well\n"
		    "  SBX_CONTROL=unix:/path, SBX_CONTROL_UID=UID,\n"
		    "  SBX_SOCKET_MODE=0660  for a gateway on this machine\n");
		return 0;
	}
	(void)fprintf(stderr, "sbx-agent: no such option; see --help\n");
	return 2;
}

int
main(int argc, char **argv)
{
	const struct log_options lo = {.level = LOG_INFO,
				       .program = "sbx-agent"};
	struct agent a = {0};
	char *why = NULL;

	if (argc > 1)
		return main_options(argc, argv);
	main_process();
	if (log_setup(&lo) != 0)
		return 1;
	if (agentconf_read(&a.conf, &why) != 0)
		log_fatal("agent.conf", "reason=\"%s\"", why);
	main_start(&a);
	main_announce(&a);
	loop_run(a.loop);
	main_end(&a);
	return a.status;
}
