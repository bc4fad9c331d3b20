/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting jobs, behind one small interface. A launcher makes a job run, tells
 * what becomes of it, and ends it when told to; it knows nothing of HTTP, of
 * labels or of who may do what. Its user knows nothing of namespaces, cgroups
 * or container tools.
 *
 * Each job has a directory JOBS_DIR/<id>/, made by the launcher and removed by
 * launch_remove(), with at least the file `log` in it (doc/PROTOCOL.md says
 * what else the local launcher keeps there). A line of the log is one JSON
 * object: {"t":<ms since 1970>,"s":"stdout|stderr|system","d":"text"}; what is
 * "system" was not said by the job but about it. When a log has grown to half
 * of what it may take it is renamed to `log.1` (in place of an older one) and a
 * new one is begun: whoever follows it, and has read one to its end, looks
 * whether `log` is still the file that it has open.
 *
 * Jobs outlive the gateway. A gateway that starts calls launch_adopt() for
 * every job that it knows not to have ended, then launch_sweep(), which ends
 * and removes what nobody knows of.
 */
#ifndef SBX_GATEWAY_LAUNCH_H
#define SBX_GATEWAY_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"

#define LAUNCH_ID_LEN 24   /* lower-case hex digits */
#define LAUNCH_TEXT   1024 /* longest message about a job */

struct gw_conf;
struct launch; /* one job in a launcher's care */
struct launcher;
struct loop;

enum launch_mode {
	LAUNCH_COMMAND, /* runs argv */
	/* Runs our agent, one sandbox. With argv (the local launcher alone can)
	 * that is the main process, as with LAUNCH_COMMAND, and the agent runs
	 * beside it: its output is not in `log` but in `agent.log`, its end
	 * alone is LAUNCH_LOST. */
	LAUNCH_DEDICATED,
	LAUNCH_HOST /* runs our agent in host mode; argv is not used */
};

struct launch_var {
	const char *name;
	const char *value;
};

/* A file that is there before anything of the job runs. */
struct launch_file {
	const char *path; /* absolute; directories are made */
	struct strv content;
	unsigned mode;
};

struct launch_scratch {
	const char *name; /* a-z 0-9 -, at most 63 */
	const char *path; /* absolute, made when missing */
};

/* What a job is. Everything is borrowed for the call of launch_start(). */
struct launch_spec {
	const char *id; /* LAUNCH_ID_LEN lower-case hex digits */
	enum launch_mode mode;
	const char *const *argv;
	size_t nargv;
	const char *cwd; /* of argv, absolute; NULL: its home */
	const struct launch_file *files;
	size_t nfiles;
	/* Directories of its own at these places, for the local launcher:
	 * their content is scratch/<name>/data of its tree. */
	const struct launch_scratch *scratch;
	size_t nscratch;
	/* Later ones win over earlier ones with the same name, secrets over
	 * env. SBX_LISTEN, SBX_PORT, SBX_CONTROL, SBX_CONTROL_UID,
	 * SBX_SOCKET_MODE, SBX_HOMES and SBX_UIDS are ours: dropped when they
	 * are among these. The agent's other settings (SBX_TOKEN,
	 * SBX_IDLE_TIMEOUT, SBX_CAPACITY) go through; SBX_HOST_MODE follows
	 * from mode. */
	const struct launch_var *env;
	size_t nenv;
	const struct launch_var *secrets;
	size_t nsecrets;
	const char *image;  /* NULL: none was asked for */
	const char *flavor; /* as text, for templates; NULL: none */
	/* A program (absolute path first) that fills the job's file system
	 * before anything of the job runs, as this gateway's user; NULL: none.
	 * It is the supervisor's child: a stop kills it, a
	 * restart of the gateway does not. The job cannot be started when its
	 * exit code is not 0; the last line that it wrote says why. It takes
	 * no place among those that may start at once, and its time counts in
	 * timeout_ms. The local launcher alone can do it. */
	const char *const *prepare;
	size_t nprepare;
	bool closed;         /* no network but its own loopback, whatever is
			      * configured (the local launcher alone can) */
	uint64_t timeout_ms; /* from now; 0: none */
	uint64_t grace_ms; /* from TERM to KILL after that; 0: the launcher's */
	uint64_t memory;   /* bytes; 0: no bound, as with the following */
	uint64_t cpu_milli; /* thousandths of a core */
	uint64_t pids;
	uint64_t log_max; /* bytes on disk; 0: 16 MiB */
};

/* How a job ended. */
enum launch_reason {
	LAUNCH_EXITED,    /* by itself: code, or signal when that is not 0 */
	LAUNCH_TIMEOUT,   /* killed: timeout_ms had passed */
	LAUNCH_STOPPED,   /* after launch_stop() */
	LAUNCH_UNSTARTED, /* could not be started: message says why */
	LAUNCH_LOST,      /* vanished; nobody knows its exit code */
	LAUNCH_OOM        /* killed for want of memory: code or signal */
};

struct launch_end {
	enum launch_reason reason;
	int code;            /* exit code; -1: none */
	int signal;          /* that killed it; 0: none */
	uint64_t time_ms;    /* when, since 1970 */
	const char *message; /* one line, never NULL, may be empty */
};

/*
 * What a launcher tells of a job, in this order, each at most once, and never
 * from inside launch_start() or launch_adopt(). ended() always comes last (and
 * possibly alone); launch_drop() is then due, and may be called inside it.
 */
struct launch_cbs {
	/* It runs. message: what is less than it should be ("no network
	 * namespace: …"), else empty. */
	void (*started)(struct launch *j, const char *message, void *arg);
	/* Its agent answers: http is "unix:/path" or "tcp:ip:port", control a
	 * path or NULL (then ports are reached through the agent alone). Not
	 * for LAUNCH_COMMAND. A main process may have ended before. */
	void (*ready)(struct launch *j, const char *http, const char *control,
		      void *arg);
	void (*ended)(struct launch *j, const struct launch_end *end,
		      void *arg);
};

struct launch_options {
	struct loop *loop;
	const struct gw_conf *conf; /* borrowed; see launcher_set_conf() */
	const char *jobs_dir;       /* absolute; made when missing; copied */
	uid_t worker_uid;           /* who connects to agents' sockets */
};

/* name: "local", or of a [launcher NAME] section. *why is malloc'ed. */
int launcher_new(const struct launch_options *o, const char *name,
		 struct launcher **out, char **why) SBX_MUST_CHECK;
/* Forgets the jobs (no callbacks), which go on. NULL is fine. */
void launcher_free(struct launcher *l);
/* After a reload: for jobs started from now on. */
void launcher_set_conf(struct launcher *l, const struct gw_conf *conf);

/* Starts a job. 0: *out is in the launcher's care until launch_drop(), and
 * callbacks follow (a job that fails while it is being started is one with an
 * ended()). E_INVALID, E_EXISTS (that directory is there), E_LIMIT, E_SYS with
 * *why (malloc'ed) when there is nothing to be dropped. */
int launch_start(struct launcher *l, const struct launch_spec *spec,
		 const struct launch_cbs *cbs, void *arg, struct launch **out,
		 char **why) SBX_MUST_CHECK;
/* Finds a job that an earlier gateway started. started(), ready() and ended()
 * are told (anew) as far as it has come. Never fails: what cannot be found has
 * ended as LAUNCH_LOST. */
void launch_adopt(struct launcher *l, const char *id,
		  const struct launch_cbs *cbs, void *arg, struct launch **out);
/* Once, after all adoptions: ends and removes every job that was not adopted
 * and is not known (known ones have ended, and their logs are still wanted). */
typedef bool (*launch_known_cb)(const char *id, void *arg);
void launch_sweep(struct launcher *l, launch_known_cb known, void *arg);

/* TERM to the main process, KILL to everything after grace_ms; 0: KILL at
 * once. As often as one likes: of several graces the one counts that is over
 * first. A start that is under way is cancelled for good. After the end nothing
 * happens. */
void launch_stop(struct launch *j, uint64_t grace_ms);
/* The same for an adopted job that an earlier gateway has told to stop, as far
 * as is known: the grace that it was given then counts, if it has got it. */
void launch_stop_again(struct launch *j, uint64_t grace_ms);
/* Freezes all processes of a job, or lets them go on; a stop does that too.
 * Whoever connects to its agent waits. E_UNSUPPORTED: it has no control group,
 * *why (static) says so. E_NOTFOUND: it does not run. */
int launch_pause(struct launch *j, bool pause, const char **why) SBX_MUST_CHECK;
/* As the kernel has it, also after a restart. */
bool launch_paused(struct launch *j);
/* Forgets a job: no more callbacks, *j is gone. A job that still runs goes on
 * (and can be adopted). NULL is fine. */
void launch_drop(struct launch *j);
/* Removes the directory of a job that has ended and was dropped. */
void launch_remove(struct launcher *l, const char *id);

/* A job that the command launcher started says where its agent is: token is
 * what it was given for this, once. E_NOTFOUND, E_DENIED, E_INVALID (the
 * address). */
int launch_register(struct launcher *l, const char *id, struct strv token,
		    struct strv address, char **why) SBX_MUST_CHECK;

/*
 * The files of a job, where the launcher has them on this machine
 * (doc/PROTOCOL.md, section 7). They go when it has ended, unless they are to
 * be kept:
 *
 *	launch_keep(l, id)	before a stop, or at any time while it runs
 *	launch_tree(l, id, &t)	now, or once it has ended; read it, ask again:
 *				E_NOTFOUND means that it had ended before it
 *				was told, and what was read may be half of it
 *	launch_unkeep(l, id)	as often as launch_keep() returned 0
 *
 * They are as the job left them until the last launch_unkeep() or
 * launch_remove(), and are not kept for a gateway that was started since. To
 * fill them: launch_spec.prepare.
 */
struct launch_tree {
	char *dir;                /* malloc'ed */
	const char *const *parts; /* directories in it that are the job's;
				   * NULL-ended, static */
	uid_t base;               /* of the job's ids; what is root in there */
	unsigned ids;
};
/* E_UNSUPPORTED: they are not here. E_NOTFOUND: they are (being) removed,
 * since it has ended; or it is not this launcher's. */
int launch_tree(struct launcher *l, const char *id,
		struct launch_tree *out) SBX_MUST_CHECK;
/* E_NOTFOUND: it does not run (yet, any more). E_UNSUPPORTED. */
int launch_keep(struct launcher *l, const char *id) SBX_MUST_CHECK;
void launch_unkeep(struct launcher *l, const char *id);

/* JOBS_DIR/<id>, malloc'ed; NULL when id is not an id. */
char *launch_dir(const struct launcher *l, const char *id);
bool launch_id_valid(struct strv id);
/* A word, static: "exited". */
const char *launch_reason_text(enum launch_reason r);

/*
 * For those who implement one (and for tests of those who use one). A struct
 * of theirs begins with struct launcher, another with struct launch.
 */
struct launcher_ops {
	void (*free)(struct launcher *l);
	void (*set_conf)(struct launcher *l, const struct gw_conf *conf);
	int (*start)(struct launcher *l, const struct launch_spec *spec,
		     struct launch **out, char **why);
	void (*adopt)(struct launcher *l, const char *id, struct launch **out);
	void (*sweep)(struct launcher *l, launch_known_cb known, void *arg);
	void (*stop)(struct launch *j, uint64_t grace_ms);
	void (*stop_again)(struct launch *j,
			   uint64_t grace_ms); /* NULL: stop */
	/* NULL: E_UNSUPPORTED, both */
	int (*pause)(struct launch *j, bool pause, const char **why);
	bool (*paused)(struct launch *j);
	void (*drop)(struct launch *j);
	void (*remove)(struct launcher *l, const char *id);
	/* NULL: E_UNSUPPORTED, all three. */
	int (*tree)(struct launcher *l, const char *id,
		    struct launch_tree *out);
	int (*keep)(struct launcher *l, const char *id);
	void (*unkeep)(struct launcher *l, const char *id);
	/* NULL: refuses */
	int (*reg)(struct launcher *l, const char *id, struct strv token,
		   struct strv address, char **why);
};

struct launcher {
	const struct launcher_ops *ops;
	char *jobs_dir;
};

struct launch {
	struct launcher *launcher;
	const struct launch_cbs *cbs; /* borrowed: usually static */
	void *arg;
	char id[LAUNCH_ID_LEN + 1];
};

#endif
