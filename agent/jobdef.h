/* SPDX-License-Identifier: Apache-2.0 */
/* What a job is: the `spec.json` of its directory (doc/PROTOCOL.md). */
#ifndef SBX_AGENT_JOBDEF_H
#define SBX_AGENT_JOBDEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"

#define JOBDEF_MAX       (8U << 20) /* bytes of a spec.json */
#define JOBDEF_FILES_MAX (1U << 20) /* of its files together, decoded */

enum jobdef_mode { JOBDEF_COMMAND, JOBDEF_DEDICATED, JOBDEF_HOST };

struct jobdef_file {
	char *path; /* absolute */
	struct strbuf content;
	mode_t mode;
};

struct jobdef {
	char *id;
	enum jobdef_mode mode;
	char **argv;               /* NULL-ended; not HOST */
	char *cwd;                 /* of argv; NULL: its home */
	struct jobdef_file *files; /* written before anything is started */
	size_t nfiles;
	char **env;       /* "NAME=value", NULL-ended; has secrets in it */
	char **prepare;   /* see jobprep.h, NULL-ended; NULL: none */
	char *image;      /* as the user named it; NULL: none */
	char *cgroup;     /* directory for the job's control group; NULL */
	char *rootfs;     /* NULL: the machine's own system */
	char **expose;    /* more of that system to be seen, NULL-ended */
	char **scratch;   /* "NAME PATH", NULL-ended; see base/scratch.h */
	char **outside;   /* see jobout.h, NULL-ended; NULL: none */
	bool best_effort; /* a host takes what isolation there is */
	bool net_private;
	char *outbound;      /* program that connects a private network; NULL */
	uint64_t timeout_ms; /* 0: none, as below */
	uint64_t grace_ms;   /* after it */
	uint64_t memory, cpu_milli, pids;
	uint64_t log_max;
	uid_t uid;     /* first of the job's own ids on this machine */
	unsigned uids; /* how many */
	uid_t slice, slice_last; /* for a host without a user namespace */
	uid_t worker_uid;        /* who connects to its agent */
};

/* Has it a main command and our agent beside it? */
bool jobdef_beside(const struct jobdef *s);

/* Every key is checked; *why (malloc'ed) names the one that is wrong. */
int jobdef_parse(struct strv text, struct jobdef *out,
		 char **why) SBX_MUST_CHECK;
/* Wipes the environment. */
void jobdef_clear(struct jobdef *s);

#endif
