/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sandbox: its identity, its home and what confines its processes. In
 * dedicated mode the machine is the sandbox: there is one, with no home of its
 * own and unconfined.
 */
#ifndef SBX_AGENT_SANDBOX_H
#define SBX_AGENT_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/lent.h"
#include "agent/run.h"
#include "agent/spawn.h"
#include "agent/work.h"
#include "base/defs.h"
#include "base/str.h"
#include "net/loop.h"

struct host;
struct jobout;
struct landlock;
struct ns;
struct walls;
struct repl_set;

#define SANDBOX_ID_LEN    12
#define SANDBOX_TOKEN_HEX 64 /* 256 bits */
#define SANDBOX_NO_UID    ((uid_t)-1)

enum sandbox_net {
	SANDBOX_NET_DEFAULT,  /* outbound where Landlock knows of ports */
	SANDBOX_NET_NONE,     /* loopback of its own */
	SANDBOX_NET_OUTBOUND, /* the machine's, without listening on TCP */
	SANDBOX_NET_HOST,     /* the machine's */
};

/* What is asked for at its creation. */
struct sandbox_spec {
	char **env; /* "NAME=value", NULL ends; may be NULL */
	uint64_t max_procs;
	uint64_t max_mem_mb;
	uint64_t max_file_mb; /* 0: no bound */
	uint64_t disk_mb;     /* of a home in memory; 0: on disk, no bound */
	enum sandbox_net net;
	uint64_t idle_ms; /* 0: never */
};

/* What sandboxes are made with and in. */
struct sandbox_means {
	struct loop *loop;
	const char *homes;
	const struct walls *walls;
	void (*died)(void *sb); /* all its processes are gone */
};

enum sandbox_state {
	SANDBOX_LIVE,
	SANDBOX_MAKING, /* it has no home yet */
	SANDBOX_DYING,
	SANDBOX_REMOVING
};

/* For reading; host.c writes. */
struct sandbox {
	struct host *host; /* NULL: dedicated mode */
	enum sandbox_state state;
	char id[SANDBOX_ID_LEN + 1];
	char token[SANDBOX_TOKEN_HEX + 1];
	uint64_t generation;
	uint64_t created_ms; /* Unix time */
	uid_t uid;           /* SANDBOX_NO_UID: the agent's own */
	char *home;          /* NULL: dedicated mode */
	int home_fd;         /* O_PATH; -1 */
	char *proxy_dir;     /* dedicated mode: of socket files; NULL: none */
	const struct sandbox_means *means;
	struct sandbox_spec spec; /* as asked for; without env */
	struct spawn_confine confine;
	bool in_memory; /* the home, which is mounted in ns only */
	struct ns *ns;  /* NULL: none of its own, or none yet */
	struct run_set runs;
	struct jobout *outside; /* NULL: none */
	struct lent lent;       /* connections that a gateway has */
	struct repl_set *repls; /* NULL: none yet */
	unsigned busy;          /* requests and tunnels in progress */
	unsigned removals;      /* of directories, under way */
	struct work_lane files;
	struct work_job job; /* its home's making, then its removal */
	int eno;             /* why that failed; 0: it did not */
	uint64_t max_file;   /* bytes; 0: no bound */
	size_t held;         /* bytes of their bodies in memory */
	uint64_t idle_ms;
	uint64_t active_ms; /* loop time of the last activity */
	struct timer timer; /* idle; then for its end */
	uint64_t dying_ms;
	unsigned polls;
	bool dropped;
	struct host_maker *maker;    /* waits for its birth */
	struct host_waiter *waiters; /* for its end */
	struct sandbox *next, *prev;
};

/* Takes down what is asked for; m is borrowed. The rest of sb is set: id, uid,
 * home. */
void sandbox_ask(struct sandbox *sb, const struct sandbox_means *m,
		 const struct sandbox_spec *spec);
/* Makes the home, as uid's; blocks. E_SYS with errno. */
int sandbox_make_home(struct sandbox *sb, int homes_fd) SBX_MUST_CHECK;
/* Closes and frees what it holds; the struct itself goes when nobody is in it
 * any more (sandbox_leave). The home stays. */
void sandbox_drop(struct sandbox *sb);

/* The dedicated one: commands run as the agent, with its environment.
 * proxy_dir: where servers may put their socket files; NULL: nowhere. */
struct sandbox *sandbox_new_dedicated(struct proc_env *procs, struct loop *l,
				      const char *proxy_dir);

/* Something begins and ends that keeps it from being idle. */
void sandbox_enter(struct sandbox *sb);
void sandbox_leave(struct sandbox *sb);
/* Looks at lent connections too, so not to be asked all the time. */
bool sandbox_idle(struct sandbox *sb);
/* Loop time of the last activity that has ended. */
uint64_t sandbox_active_ms(const struct sandbox *sb);
/* How long until one that is in use is looked at again. */
uint64_t sandbox_look_ms(uint64_t idle_ms);

/* A connection to its server on that port, as hostile: see net/sockdir.h. In
 * dedicated mode E_UNSUPPORTED when no socket file serves that port: then TCP
 * is to be tried. E_BUSY: that takes a disk; a thread is to ask (reach.h). */
int sandbox_connect(const struct sandbox *sb, uint16_t port,
		    int *fd) SBX_MUST_CHECK;
/* The same, on a thread: never E_BUSY. */
int sandbox_connect_wait(const struct sandbox *sb, uint16_t port,
			 int *fd) SBX_MUST_CHECK;
/* Calls fn for each port that has a socket file. E_LIMIT: to read so large a
 * directory takes too long. E_NOTFOUND, E_UNSUPPORTED: there is none. */
int sandbox_ports(const struct sandbox *sb, void (*fn)(uint16_t, void *),
		  void *arg) SBX_MUST_CHECK;

/* Is that a name a user may set? NULL: yes; else why not. */
const char *sandbox_env_refused(const char *name);

#endif
