/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandboxes of host mode. An id, a uid and a home are used again only when
 * nothing of their last owner is left: a sandbox that ends goes through DYING
 * (killing until no process of its uid exists) and REMOVING (its home).
 */
#include "config.h"

#include "agent/host.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/cgroup.h"
#include "agent/enclose.h"
#include "agent/hostcheck.h"
#include "agent/landlock.h"
#include "agent/leftover.h"
#include "agent/ns.h"
#include "agent/repl.h"
#include "agent/rmtree.h"
#include "agent/uidkill.h"
#include "agent/uidpool.h"
#include "agent/walls.h"
#include "agent/work.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"

#define HOST_POLL_MAX_MS 16
#define HOST_DYING_MS    5000 /* then the uid is left to be found unused */
#define HOST_READERS_MS  1000 /* for slow readers of a dead command */
#define HOST_FILES       2    /* file operations of one sandbox at a time */
#define HOST_BIRTHS      2    /* homes made at a time */

struct host {
	struct loop *loop;
	struct proc_env *procs;
	const struct baseenv *base;
	uint64_t resume_ms;
	struct work *work;
	struct walls walls;
	struct uidpool *uids; /* NULL: not root */
	uid_t reaper;
	char *homes;
	int homes_fd;
	unsigned capacity;
	uint64_t generation;
	struct hash *by_id;
	struct sandbox *first, *last; /* live */
	size_t making, ending;
	struct sandbox_means means;
	struct work_lane births;
	struct host_observer *observers;
};

static void host_died_cb(void *arg);

/* --- start ------------------------------------------------------------- */

static int
host_take_homes(struct host *h, const char *homes, char **why)
{
	int r = dir_make(homes, 0711);

	if (r == 0) {
		h->homes_fd = open(homes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (h->homes_fd == -1)
			r = err_from_errno(errno);
	}
	if (r != 0) {
		*why = xasprintf("%s: %s", homes, err_text(r));
		return r;
	}
	h->homes = realpath(homes, NULL);
	if (h->homes == NULL || fchmod(h->homes_fd, 0711) != 0) {
		*why = xasprintf("%s: %s", homes, strerror(errno));
		return E_SYS;
	}
	if (flock(h->homes_fd, LOCK_EX | LOCK_NB) != 0) {
		*why = xasprintf("%s: another agent uses it", homes);
		return E_BUSY;
	}
	return 0;
}

static int
host_take_uids(struct host *h, const struct host_options *o, char **why)
{
	int r;

	if (geteuid() != 0)
		return 0;
	/* File operations act with a sandbox's fsuid and fsgid; groups of
	 * ours would come on top. */
	if (setgroups(0, NULL) != 0) {
		*why = xasprintf("setgroups: %s", strerror(errno));
		return E_SYS;
	}
	r = uidpool_new(o->uid_first, o->uid_last, o->uid_lock, &h->uids);
	if (r == 0)
		r = uidpool_lease(h->uids, &h->reaper);
	if (r != 0)
		*why = xasprintf("user ids (%s): %s",
				 o->uid_lock != NULL ? o->uid_lock : "-",
				 err_text(r));
	return r;
}

int
host_new(struct loop *l, struct proc_env *procs, struct work *w,
	 const struct host_options *o, struct host **out, char **why)
{
	struct host *h = xcalloc(1, sizeof(*h));
	int r;

	h->loop = l;
	h->procs = procs;
	h->base = o->base;
	h->resume_ms = o->resume_ms;
	h->work = w;
	h->homes_fd = -1;
	h->capacity = o->capacity;
	h->by_id = hash_new();
	work_lane_init(&h->births, w, HOST_BIRTHS);
	if ((r = hostcheck_isolation(landlock_abi(), o->best_effort, why)) !=
		0 ||
	    (r = host_take_homes(h, o->homes, why)) != 0 ||
	    (r = host_take_uids(h, o, why)) != 0)
		goto fail;
	if (h->uids != NULL && (r = hostcheck_homes(h->homes, why)) != 0)
		goto fail;
	leftover_homes(h->homes_fd, h->uids, h->reaper);
	walls_raise(&h->walls, o->cgroup);
	h->means = (struct sandbox_means){.loop = l,
					  .homes = h->homes,
					  .walls = &h->walls,
					  .died = host_died_cb};
	*out = h;
	return 0;
fail:
	host_free(h);
	return r;
}

void
host_free(struct host *h)
{
	if (h == NULL)
		return;
	assert(!host_busy(h));
	if (h->reaper != 0)
		uidpool_return(h->uids, h->reaper);
	uidpool_free(h->uids);
	walls_clear(&h->walls);
	hash_free(h->by_id);
	fd_close(&h->homes_fd);
	free(h->homes);
	free(h);
}

const char *
host_isolation(const struct host *h)
{
	return hostcheck_word(h->uids != NULL, h->walls.landlock != NULL);
}

const struct walls *
host_walls(const struct host *h)
{
	return &h->walls;
}

size_t
host_count(const struct host *h)
{
	return hash_count(h->by_id);
}

bool
host_full(const struct host *h)
{
	/* One that ends still has its processes' memory and its home. */
	return h->capacity != 0 &&
	       host_count(h) + h->making + h->ending >= h->capacity;
}

/* --- observers --------------------------------------------------------- */

void
host_observe(struct host *h, struct host_observer *o)
{
	o->prevp = &h->observers;
	if ((o->next = h->observers) != NULL)
		o->next->prevp = &o->next;
	h->observers = o;
}

void
host_unobserve(struct host_observer *o)
{
	if (o->prevp == NULL)
		return;
	*o->prevp = o->next;
	if (o->next != NULL)
		o->next->prevp = o->prevp;
	o->prevp = NULL;
}

static void
host_tell_created(struct host *h, const struct sandbox *sb)
{
	struct host_observer *next;

	for (struct host_observer *o = h->observers; o != NULL; o = next) {
		next = o->next;
		o->created(o, sb);
	}
}

static void
host_tell_gone(struct host *h, const struct sandbox *sb, const char *reason)
{
	struct host_observer *next;

	for (struct host_observer *o = h->observers; o != NULL; o = next) {
		next = o->next;
		o->gone(o, sb, reason);
	}
}

/* --- birth ------------------------------------------------------------- */

static void host_timer_cb(void *arg);
static void host_remove(struct sandbox *sb);

static struct sandbox *
host_new_sandbox(struct host *h, uid_t uid)
{
	struct sandbox *sb = xcalloc(1, sizeof(*sb));
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	sb->host = h;
	sb->state = SANDBOX_MAKING;
	sb->uid = uid;
	sb->home_fd = -1;
	sb->created_ms =
	    (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	do
		token_label(sb->id, SANDBOX_ID_LEN);
	while (hash_get(h->by_id, strv_of(sb->id)) != NULL);
	token_hex(sb->token, SANDBOX_TOKEN_HEX / 2);
	sb->home = xasprintf("%s/%s", h->homes, sb->id);
	work_lane_init(&sb->files, h->work, HOST_FILES);
	run_set_init(&sb->runs);
	sb->runs.place.procs = h->procs;
	sb->runs.place.base = h->base;
	sb->runs.place.resume_ms = h->resume_ms;
	sb->runs.place.loop = h->loop;
	sb->runs.place.reaper = h->reaper;
	timer_init(&sb->timer, h->loop, host_timer_cb, sb);
	return sb;
}

static void
host_drop_sandbox(struct sandbox *sb)
{
	timer_clear(&sb->timer);
	sandbox_drop(sb);
}

static void
host_link(struct host *h, struct sandbox *sb)
{
	sb->state = SANDBOX_LIVE;
	sb->generation = ++h->generation;
	(void)hash_set(h->by_id, strv_of(sb->id), sb);
	sb->prev = h->last;
	if (h->last != NULL)
		h->last->next = sb;
	else
		h->first = sb;
	h->last = sb;
}

static void
host_unlink(struct host *h, struct sandbox *sb)
{
	(void)hash_del(h->by_id, strv_of(sb->id));
	if (sb->prev != NULL)
		sb->prev->next = sb->next;
	else
		h->first = sb->next;
	if (sb->next != NULL)
		sb->next->prev = sb->prev;
	else
		h->last = sb->prev;
	sb->next = sb->prev = NULL;
}

static void
host_make_job(struct work_job *j)
{
	struct sandbox *sb = CONTAINER_OF(j, struct sandbox, job);

	if (sandbox_make_home(sb, sb->host->homes_fd) != 0)
		sb->eno = errno != 0 ? errno : EIO;
}

static void
host_tell_maker(struct sandbox *sb, struct sandbox *made, int eno)
{
	if (sb->maker != NULL)
		sb->maker->done(sb->maker, made, eno);
	sb->maker = NULL;
}

/* The disk does not answer; if it ever does, nobody wants the home any more. */
static void
host_make_late(struct work_job *j)
{
	struct sandbox *sb = CONTAINER_OF(j, struct sandbox, job);

	log_warn("sandbox.stall", "id=%s", sb->id);
	host_tell_maker(sb, NULL, ETIMEDOUT);
}

static void
host_made_cb(struct work_job *j)
{
	struct sandbox *sb = CONTAINER_OF(j, struct sandbox, job);
	struct host *h = sb->host;

	h->making--;
	if (!j->ran)
		sb->eno = ETIMEDOUT;
	else if (sb->eno == 0 && sb->maker != NULL && enclose_early(sb) != 0)
		sb->eno = EPERM;
	if (sb->maker == NULL || sb->eno != 0) {
		h->ending++;
		host_tell_maker(sb, NULL, sb->eno);
		host_remove(sb);
		return;
	}
	host_link(h, sb);
	sb->active_ms = loop_now_ms(h->loop);
	if (sb->idle_ms != 0)
		timer_set(&sb->timer, sb->idle_ms);
	log_info("sandbox.create", "id=%s uid=%ld", sb->id, (long)sb->uid);
	host_tell_created(h, sb);
	host_tell_maker(sb, sb, 0);
}

int
host_create(struct host *h, const struct sandbox_spec *spec,
	    struct host_maker *m, char **why)
{
	struct sandbox *sb;
	uid_t uid = SANDBOX_NO_UID;
	int r;

	if ((r = enclose_possible(&h->means, spec, why)) != 0)
		return r;
	if (host_full(h) ||
	    (h->uids != NULL && uidpool_lease(h->uids, &uid) != 0)) {
		*why = xstrdup("no room for another sandbox");
		return E_FULL;
	}
	sb = host_new_sandbox(h, uid);
	sandbox_ask(sb, &h->means, spec);
	sb->maker = m;
	h->making++;
	sb->job.fn = host_make_job;
	sb->job.done = host_made_cb;
	sb->job.late = host_make_late;
	sb->job.uid = WORK_SELF;
	work_submit(&h->births, &sb->job);
	return 0;
}

struct sandbox *
host_find(struct host *h, struct strv id)
{
	return hash_get(h->by_id, id);
}

struct sandbox *
host_next(struct host *h, struct sandbox *after)
{
	return after == NULL ? h->first : after->next;
}

/* --- end --------------------------------------------------------------- */

static void
host_remove_job(struct work_job *j)
{
	struct sandbox *sb = CONTAINER_OF(j, struct sandbox, job);
	int r;

	if (sb->uid != SANDBOX_NO_UID && sb->host->walls.borrow == NULL)
		leftover_ipc(sb->uid);
	if (sb->host->walls.cgroup != NULL)
		(void)!cgroup_remove(sb->host->walls.cgroup, sb->id);
	r = rmtree(sb->host->homes_fd, sb->id); /* said on the loop */
	sb->eno = r != 0 && r != E_NOTFOUND ? EIO : 0;
}

static void
host_removed_cb(struct work_job *j)
{
	struct sandbox *sb = CONTAINER_OF(j, struct sandbox, job);
	struct host *h = sb->host;
	struct host_waiter *w;

	if (sb->eno != 0)
		log_warn("sandbox.home", "id=%s error=\"not all removed\"",
			 sb->id);
	if (sb->uid != SANDBOX_NO_UID)
		uidpool_return(h->uids, sb->uid);
	h->ending--;
	log_info("sandbox.gone", "id=%s uid=%ld", sb->id, (long)sb->uid);
	while ((w = sb->waiters) != NULL) {
		sb->waiters = w->next;
		w->done(w);
	}
	host_drop_sandbox(sb);
}

/* When the last of its file operations is over. */
static void
host_remove(struct sandbox *sb)
{
	sb->state = SANDBOX_REMOVING;
	sb->job.late = NULL;
	sb->job.fn = host_remove_job;
	sb->job.done = host_removed_cb;
	sb->job.uid = WORK_SELF;
	sb->job.slow = true;
	work_lane_close(&sb->files, &sb->job);
}

static void
host_kill(struct sandbox *sb)
{
	int r = 0;

	if (sb->ns != NULL && ns_alive(sb->ns))
		ns_kill(sb->ns);
	else if (sb->confine.cgroup != -1 &&
		 cgroup_kill(sb->confine.cgroup) == 0)
		r = 0;
	else if (sb->uid != SANDBOX_NO_UID)
		r = uidkill(sb->host->reaper, sb->uid, -1, SIGKILL);
	else
		for (struct run *x = run_next(&sb->runs, NULL); x != NULL;
		     x = run_next(&sb->runs, x))
			r = run_running(x) ? run_signal(x, SIGKILL) : 0;
	if (r != 0 && r != E_NOTFOUND)
		log_warn("sandbox.kill", "id=%s error=\"%s\"", sb->id,
			 err_text(r));
}

/* Whether its processes are gone and their readers know. */
static bool
host_dead(struct sandbox *sb)
{
	uint64_t ms = loop_now_ms(sb->host->loop) - sb->dying_ms;

	if (ms >= HOST_DYING_MS) {
		log_warn("sandbox.undead", "id=%s uid=%ld", sb->id,
			 (long)sb->uid);
		return true;
	}
	if (sb->ns != NULL && ns_alive(sb->ns))
		return false;
	if (sb->uid != SANDBOX_NO_UID && uidkill_alive(sb->uid))
		return false;
	return sb->runs.nlive == 0 || ms >= HOST_READERS_MS;
}

static void
host_dying(struct sandbox *sb)
{
	uint64_t wait = 1;

	if (host_dead(sb)) {
		sb->runs.changed = NULL;
		timer_stop(&sb->timer);
		run_set_clear(&sb->runs);
		host_remove(sb);
		return;
	}
	host_kill(sb);
	for (unsigned i = 0; i < sb->polls && wait < HOST_POLL_MAX_MS; i++)
		wait *= 2;
	sb->polls++;
	timer_set(&sb->timer, wait);
}

/* One of its processes was reaped: mostly the last. */
static void
host_runs_changed(struct run_set *s, void *arg)
{
	struct sandbox *sb = arg;

	(void)s;
	if (sb->state == SANDBOX_DYING && sb->runs.nlive == 0)
		timer_set(&sb->timer, 0);
}

/* Its process 1 is gone, and so are all others: as was asked for, or because
 * somebody killed it. */
static void
host_died_cb(void *arg)
{
	struct sandbox *sb = arg;

	if (sb->state == SANDBOX_DYING)
		timer_set(&sb->timer, 0);
	else if (sb->state == SANDBOX_LIVE)
		host_delete(sb->host, sb, "killed", NULL);
}

static void
host_timer_cb(void *arg)
{
	struct sandbox *sb = arg;
	uint64_t now = loop_now_ms(sb->host->loop), quiet;

	if (sb->state == SANDBOX_DYING) {
		host_dying(sb);
		return;
	}
	if (sb->state != SANDBOX_LIVE)
		return;
	if (!sandbox_idle(sb)) {
		sb->active_ms = now;
		timer_set(&sb->timer, sandbox_look_ms(sb->idle_ms));
		return;
	}
	quiet = now - sandbox_active_ms(sb);
	if (quiet < sb->idle_ms)
		timer_set(&sb->timer, sb->idle_ms - quiet);
	else
		host_delete(sb->host, sb, "idle", NULL);
}

void
host_delete(struct host *h, struct sandbox *sb, const char *reason,
	    struct host_waiter *w)
{
	assert(sb->state == SANDBOX_LIVE);
	log_info("sandbox.delete", "id=%s reason=%s", sb->id, reason);
	host_unlink(h, sb);
	h->ending++;
	sb->state = SANDBOX_DYING;
	work_lane_close(&sb->files, NULL);
	sb->dying_ms = loop_now_ms(h->loop);
	sb->runs.changed = host_runs_changed;
	sb->runs.arg = sb;
	if (w != NULL) {
		w->next = sb->waiters;
		sb->waiters = w;
	}
	host_tell_gone(h, sb, reason);
	repl_set_free(sb->repls); /* no call starts another interpreter */
	sb->repls = NULL;
	host_dying(sb);
}

bool
host_any_process(const struct host *h)
{
	const struct sandbox *sb = h->first;

	while (sb != NULL && !uidkill_alive(sb->uid))
		sb = sb->next;
	return sb != NULL;
}

bool
host_busy(const struct host *h)
{
	return h->first != NULL || h->making > 0 || h->ending > 0;
}
