/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Python interpreter; see the header. Nothing that the runner says is
 * believed for more than what it can do anyway: it is code of the sandbox. A
 * child that it hands over must be a process of the same user.
 */
#include "config.h"

#include "agent/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/frames.h"
#include "agent/layer.h"
#include "agent/run.h"
#include "agent/spawn.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/loop.h"

static const unsigned char runner_source[] = {
#include "agent/runner_py.h"
};

/* The runner (packed by gzip) is read from the socket: an argument could not be
 * so long, and a file would have to be somewhere. */
static const char bootstrap[] =
    "import os, zlib\n"
    "n = int.from_bytes(os.read(0, 4), 'big')\n"
    "b = b''\n"
    "while len(b) < n:\n"
    "    b += os.read(0, n - len(b)) or os._exit(70)\n"
    "b = zlib.decompress(b[1:], 31).split(b'\\0')\n"
    "g = {'__name__': 'sbx_runner', '__file__': '<sandbox>'}\n"
    "exec(compile(b[0], '<sandbox>', 'exec'), g)\n"
    "g['later'] = {'forks': b[1], 'views': b[2]}\n"
    "r = g['Runner'](0)\n"
    "r.start()\n"
    "r.serve()\n";

struct interp {
	struct interp_place *pl;
	struct proc *proc;
	struct frames *link;
	const struct interp_cbs *cbs;
	void *arg;
	struct timer broken;
	bool cut;              /* it lived on without its connection */
	struct layer *layer;   /* of its view; NULL: it has none of its own */
	unsigned first, given; /* layers for the children of a fork */
	char kind;             /* of the frame that waits; 0: none */
	struct strbuf frame;
};

#define INTERP_BROKEN_MS 100
#define INTERP_LINK_LOST 70 /* the runner's status */

static const struct proc_cbs interp_proc_cbs;
static const struct frames_cbs interp_frames_cbs;
static void interp_broken_cb(void *arg);

static struct interp *
interp_new(struct interp_place *pl, int link)
{
	struct interp *in = xcalloc(1, sizeof(*in));

	in->pl = pl;
	timer_init(&in->broken, pl->place->loop, interp_broken_cb, in);
	in->link = frames_take_fd(pl->place->loop, link, &pl->held,
				  INTERP_HELD_MAX, &interp_frames_cbs, in);
	return in;
}

/* --- children of a fork ------------------------------------------------ */

/* The last number of a line "NSpid:\t1234\t5": in the innermost namespace. */
static pid_t
interp_last_number(const char *line)
{
	const char *last = strrchr(line, '\t');

	return last != NULL ? (pid_t)strtol(last, NULL, 10) : 0;
}

/* The process behind a pidfd, in our eyes and in its own; false: none, or it
 * is gone. */
static bool
interp_look(int pidfd, struct spawn_child *child)
{
	char path[64], line[256];
	FILE *f;

	*child = (struct spawn_child){.pidfd = pidfd};
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	if ((f = fopen(path, "re")) == NULL)
		return false;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, "Pid:", 4) == 0)
			child->pid = (pid_t)strtol(line + 4, NULL, 10);
		else if (strncmp(line, "NSpid:", 6) == 0)
			child->inside = interp_last_number(line);
	}
	(void)fclose(f);
	return child->pid > 1 && child->inside > 0;
}

static bool
interp_is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY &&
	       fd_set_nonblock(fd) == 0;
}

static bool
interp_is_socket(int fd)
{
	int type = 0;
	socklen_t n = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 &&
	       type == SOCK_STREAM;
}

/* A process of the sandbox's own user that leads a group: what signals to it
 * reach is the sandbox's. */
static bool
interp_is_ours(const struct run_place *pl, pid_t pid)
{
	uid_t uid = pl->confine != NULL && pl->confine->uid != (uid_t)-1
			? pl->confine->uid
			: geteuid();
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%ld", (long)pid);
	return pid != getpid() && stat(path, &st) == 0 && st.st_uid == uid;
}

/* The layer that a child says it has; one of those that were given. */
static struct layer *
interp_take_layer(struct interp *in, struct strv body)
{
	struct json_doc *doc = NULL;
	uint64_t id = 0;
	bool is;

	is =
	    in->given > 0 && json_parse(body, &doc, NULL) == 0 &&
	    json_u64(json_get(json_root(doc), "layer"), UINT32_MAX, &id) == 0 &&
	    id >= in->first && id - in->first < in->given;
	json_doc_free(doc);
	return is ? layer_new(in->pl->lane, (unsigned)id, in->layer) : NULL;
}

static void
interp_child(struct interp *in, struct strv body)
{
	const struct run_place *place = in->pl->place;
	struct spawn_child sc;
	struct interp *child;
	int fd[4]; /* out, err, link, pidfd */

	for (int i = 0; i < 4; i++)
		fd[i] = frames_fd(in->link);
	if (fd[3] == -1 || !interp_look(fd[3], &sc) ||
	    !interp_is_ours(place, sc.pid) || !interp_is_pipe(fd[0]) ||
	    !interp_is_pipe(fd[1]) || !interp_is_socket(fd[2])) {
		for (int i = 0; i < 4; i++)
			fd_close(&fd[i]);
		return;
	}
	child = interp_new(in->pl, fd[2]);
	child->proc =
	    proc_adopt(place->procs, &sc, fd, &interp_proc_cbs, child);
	child->layer = interp_take_layer(in, body);
	in->cbs->child(child, in->arg);
}

/* --- what the runner says ---------------------------------------------- */

static void
interp_event(struct interp *in, struct strv body)
{
	struct json_doc *doc = NULL;
	bool ok = memchr(body.p, '\n', body.len) == NULL &&
		  json_parse(body, &doc, NULL) == 0 &&
		  json_string(json_get(json_root(doc), "event")) != NULL;

	json_doc_free(doc);
	if (ok)
		in->cbs->event(body, in->arg);
}

static void
interp_done(struct interp *in, struct strv body)
{
	struct json_doc *doc = NULL;
	uint64_t code = 1;

	if (json_parse(body, &doc, NULL) == 0 &&
	    json_u64(json_get(json_root(doc), "code"), 255, &code) != 0)
		code = 1;
	json_doc_free(doc);
	in->cbs->done((int)code, in->arg);
}

static void
interp_settled(struct interp *in, struct strv body)
{
	if (strv_eq(body, STRV("{}"))) {
		layer_release(in->layer);
		in->layer = NULL;
	}
	in->cbs->settled(body, in->arg);
}

static void
interp_said(struct interp *in, char kind, struct strv body)
{
	switch (kind) {
	case 'e':
		interp_event(in, body);
		frames_send(in->link, 'k', STRV_NULL);
		break;
	case 'b':
		in->cbs->begun(in->arg);
		break;
	case 'd':
		interp_done(in, body);
		break;
	case 'c':
		interp_child(in, body);
		break;
	case 'f':
		in->cbs->forked(body, in->arg);
		break;
	case 'n':
		in->cbs->names(body, in->arg);
		break;
	case 'm':
		interp_settled(in, body);
		break;
	default: /* h: it is there; nothing waits for that */
		break;
	}
}

/* What was printed before it is told before it. */
static void
interp_frame_cb(struct frames *f, char type, struct strv body, void *arg)
{
	struct interp *in = arg;

	(void)f;
	if (!proc_running(in->proc) || (type != 'e' && type != 'd')) {
		interp_said(in, type, body);
		return;
	}
	in->kind = type;
	strbuf_reset(&in->frame);
	strbuf_addv(&in->frame, body);
	frames_pause(in->link);
	proc_sync(in->proc);
}

static void
interp_tell_frame(struct interp *in)
{
	struct strbuf b = in->frame;
	char kind = in->kind;

	if (kind == 0)
		return;
	in->kind = 0;
	in->frame = (struct strbuf){0};
	interp_said(in, kind, (struct strv){b.s, b.len});
	strbuf_clear(&b);
}

static void
interp_synced_cb(struct proc *p, void *arg)
{
	struct interp *in = arg;

	(void)p;
	frames_resume(in->link); /* after the batch */
	interp_tell_frame(in);
}

/* One that ends closes its socket before we hear of its end. */
static void
interp_closed_cb(struct frames *f, void *arg)
{
	struct interp *in = arg;

	(void)f;
	timer_set(&in->broken, INTERP_BROKEN_MS);
}

static void
interp_broken_cb(void *arg)
{
	struct interp *in = arg;

	in->cut = proc_running(in->proc);
	if (in->cut)
		interp_signal(in, SIGKILL);
}

static const struct frames_cbs interp_frames_cbs = {
    .frame = interp_frame_cb,
    .closed = interp_closed_cb,
};

/* --- the process ------------------------------------------------------- */

static void
interp_output_cb(struct proc *p, unsigned stream, const char *data, size_t n,
		 void *arg)
{
	struct interp *in = arg;

	(void)p;
	in->cbs->output(stream, data, n, in->arg);
}

static void
interp_exited_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
	struct interp *in = arg;
	const struct interp_cbs *cbs = in->cbs;

	(void)p;
	/* Its last words are in the socket still. Whoever hears them waits
	 * for the end before it lets go. */
	interp_tell_frame(in);
	frames_drain(in->link);
	cbs->ended(x,
		   in->cut || x->code == INTERP_LINK_LOST
		       ? "the code broke the interpreter's connection to the "
			 "agent"
		       : NULL,
		   in->arg);
}

static const struct proc_cbs interp_proc_cbs = {
    .output = interp_output_cb,
    .exited = interp_exited_cb,
    .synced = interp_synced_cb,
};

/* Large objects in large pages, where the kernel has them for who asks: then
 * a fork does not copy a table of 4 KiB pages, which is most of its time. */
static char tunables[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";

static char **
interp_env(const struct run_place *place)
{
	char **v = run_env(place, NULL);
	size_t n = 0;

	for (; v[n] != NULL; n++) {
		if (strncmp(v[n], tunables, strcspn(tunables, "=") + 1) == 0)
			return v;
	}
	v = xreallocarray(v, n + 2, sizeof(*v));
	v[n] = tunables;
	v[n + 1] = NULL;
	return v;
}

static int
interp_spawn(struct interp *in, int theirs, char **why)
{
	static char python[] = "python3", dash_c[] = "-c";
	char *argv[] = {python, dash_c, (char *)(uintptr_t)bootstrap, NULL};
	const struct run_place *place = in->pl->place;
	const struct proc_options o = {.in_fd = theirs};
	struct spawn_error se = {0, ""};
	struct spawn_spec ss = {
	    .argv = argv, .home_fd = place->home_fd, .confine = place->confine};
	char **env = interp_env(place);
	int r, eno;

	ss.envp = env;
	r = proc_start(place->procs, &ss, &o, &interp_proc_cbs, in, &in->proc,
		       &se);
	eno = errno;
	free(env);
	if (r == E_INVALID && se.eno == ENOENT) {
		*why = xstrdup("there is no python3 in the PATH of the "
			       "sandbox");
		return E_NOTFOUND;
	}
	if (r != 0)
		*why = run_why(r, eno, &se, python);
	return r;
}

int
interp_start(struct interp_place *pl, const struct interp_cbs *cbs, void *arg,
	     struct interp **out, char **why)
{
	struct interp *in;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
		*why = xasprintf("cannot start: %s", strerror(errno));
		return E_FULL;
	}
	in = interp_new(pl, pair[0]);
	in->cbs = cbs;
	in->arg = arg;
	r = interp_spawn(in, pair[1], why);
	fd_close(&pair[1]);
	if (r != 0) {
		interp_free(in);
		return r;
	}
	frames_send(
	    in->link, '-',
	    (struct strv){(const char *)runner_source, sizeof(runner_source)});
	*out = in;
	return 0;
}

void
interp_set_cbs(struct interp *in, const struct interp_cbs *cbs, void *arg)
{
	in->cbs = cbs;
	in->arg = arg;
}

void
interp_free(struct interp *in)
{
	if (in == NULL)
		return;
	if (in->proc != NULL)
		proc_free(in->proc);
	layer_release(in->layer);
	frames_close(in->link);
	timer_clear(&in->broken);
	strbuf_clear(&in->frame);
	loop_defer_free(in->pl->place->loop, in, NULL);
}

pid_t
interp_pid(const struct interp *in)
{
	return proc_inside(in->proc);
}

/* --- orders ------------------------------------------------------------ */

void
interp_run(struct interp *in, struct strv request)
{
	frames_send(in->link, 'R', request);
}

void
interp_fork(struct interp *in, unsigned n)
{
	struct interp_place *pl = in->pl;
	char body[128];

	/* Commands that are confined may not mount anything. */
	in->given =
	    pl->place->confine == NULL && layer_place(pl->lane, pl->layers == 0)
		? n
		: 0;
	in->first = pl->layers;
	pl->layers += in->given;
	if (in->given > 0)
		(void)snprintf(body, sizeof(body),
			       "{\"n\":%u,\"layers\":\"" LAYER_DIR
			       "\",\"first\":%u}",
			       n, in->first);
	else
		(void)snprintf(body, sizeof(body), "{\"n\":%u}", n);
	frames_send(in->link, 'F', strv_of(body));
}

void
interp_names(struct interp *in)
{
	frames_send(in->link, 'N', STRV_NULL);
}

bool
interp_has_view(const struct interp *in)
{
	return in->layer != NULL;
}

void
interp_settle(struct interp *in)
{
	frames_send(in->link, 'M', STRV_NULL);
}

void
interp_signal(struct interp *in, int sig)
{
	/* One that has ended needs none. */
	if (proc_signal(in->proc, sig) != 0)
		return;
}

void
interp_pause(struct interp *in, bool pause)
{
	if (pause)
		proc_pause(in->proc);
	else
		proc_resume(in->proc);
}
