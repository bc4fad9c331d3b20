/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody asks for: the program, its environment, its limits. Read from
 * JSON as the Jobs API writes it, checked field by field, and written again
 * without the values of secrets. Every face of the control plane fills this
 * struct; none of them is known here.
 */
#ifndef SBX_GATEWAY_JOBSPEC_H
#define SBX_GATEWAY_JOBSPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct json;

#define JOBSPEC_WORDS_MAX   1024   /* command, arguments: each */
#define JOBSPEC_WORD_BYTES  131071 /* the kernel takes no longer ones */
#define JOBSPEC_ENV_MAX     1024   /* environment, secrets: each */
#define JOBSPEC_NAME_BYTES  256    /* name of a variable */
#define JOBSPEC_LABELS_MAX  64
#define JOBSPEC_LABEL_BYTES 256 /* key, value: each */
#define JOBSPEC_PORTS_MAX   16
#define JOBSPEC_VOLUMES_MAX 32
#define JOBSPEC_TAGS_MAX    64
#define JOBSPEC_TAG_BYTES   256
#define JOBSPEC_FILES_MAX   64
#define JOBSPEC_FILES_BYTES (1U << 20) /* of all of them together */
#define JOBSPEC_PATH_BYTES  4095
#define JOBSPEC_GRACE_MAX   3600000ULL /* ms */
#define JOBSPEC_TEXT_BYTES  512        /* other texts */
#define JOBSPEC_TIMEOUT_MAX (366ULL * 86400)

struct job_words {
	char **v;
	size_t n;
};

struct job_pair {
	char *key, *value; /* value NULL: a secret that is not kept */
};

struct job_pairs {
	struct job_pair *v;
	size_t n;
};

/* Of type "scratch": an empty directory of the job's own, by the name `source`
 * (base/scratch.h), at path. Others are kept and shown, not mounted. */
struct job_volume {
	char *type, *source, *path;
	bool read_only;
};

/* To be there before the job starts. */
struct job_file {
	char *path; /* absolute */
	char *data; /* NULL: not kept, as with the values of secrets */
	size_t len;
	unsigned mode; /* 0 to 07777 */
};

struct job_spec {
	char *image, *space; /* at most one of them */
	struct job_words command, arguments;
	char *working_dir; /* of the command, absolute; NULL: its home */
	struct job_words tags;
	struct job_file *files;
	size_t nfiles;
	struct job_pairs env, secrets, labels;
	char *flavor;
	uint64_t memory, cpu_milli; /* 0: those of the flavor */
	uint64_t timeout_s;         /* 0: not said */
	bool has_grace;
	uint64_t grace_ms; /* from TERM to KILL, if has_grace */
	uint16_t ports[JOBSPEC_PORTS_MAX];
	size_t nports;
	struct job_volume *volumes;
	size_t nvolumes;
	char *request_id; /* NULL: none */
	char *restore;    /* id of a snapshot that it begins with; NULL: none */
	char *restore_volume; /* the scratch volume that a snapshot of one goes
			       * into; NULL: the one of that name */
	char *face; /* what the API that asked for it keeps with it, for
		     * itself alone; NULL: nothing */
	/* As launch_spec.prepare, set by who makes the job on this side; not
	 * stored, not read. */
	struct job_words prepare;
	/* Our agent is in it: as its main process, or, when there is a command,
	 * beside that. hub: asked for by the label hf-sandbox, as by clients
	 * whose command would fetch an agent; it is not used. */
	bool sandbox, hub;
	bool closed; /* as launch_spec.closed */
};

/* A sandbox whose main process is its command? */
bool jobspec_main(const struct job_spec *s);
/* What single fields do not say, for who fills the struct by hand
 * (jobs_create() calls it): E_INVALID as below. May set sandbox and hub. */
int jobspec_check(struct job_spec *s, struct strbuf *why) SBX_MUST_CHECK;

void jobspec_clear(struct job_spec *s); /* wipes the secrets */
/* Values of secrets and contents of files are wiped and freed, names stay. */
void jobspec_forget(struct job_spec *s);

/* Reads v. E_INVALID: *why says which field and what about it (never a value).
 * *ignored, when not NULL, gets the names of unknown fields, separated by
 * ", ". stored: v is what jobspec_add_json() wrote. */
int jobspec_parse(const struct json *v, bool stored, struct job_spec *out,
		  struct strbuf *ignored, struct strbuf *why) SBX_MUST_CHECK;
/* The members of a Job object, without braces: "dockerImage":…,"command":…; no
 * labels, no tags. */
void jobspec_add_json(const struct job_spec *s, struct strbuf *b);
/* The same and what is not for everybody to see: for the database. */
void jobspec_add_stored(const struct job_spec *s, struct strbuf *b);

/* {"key": "value", …} alone. *out is jobspec_clear_pairs()'s; E_INVALID as
 * above. */
int jobspec_parse_labels(const struct json *v, struct job_pairs *out,
			 struct strbuf *why) SBX_MUST_CHECK;
/* The same object, with its braces. */
void jobspec_add_labels(const struct job_pairs *p, struct strbuf *b);
void jobspec_clear_pairs(struct job_pairs *p);
bool jobspec_is_scratch(const struct job_volume *v);
/* The scratch volume of that name; NULL: there is none. */
struct job_volume *jobspec_scratch(const struct job_spec *s, struct strv name);
/* The value of key, borrowed; NULL: there is none. */
const char *jobspec_pair(const struct job_pairs *p, const char *key);
/* Adds one; they copy what they are given. */
void jobspec_push_word(struct job_words *w, struct strv word);
void jobspec_push_file(struct job_spec *s, struct strv path, struct strv data,
		       unsigned mode);
/* The array, with its brackets. */
void jobspec_add_words(const struct job_words *w, struct strbuf *b);
void jobspec_clear_words(struct job_words *w);
/* Adds a pair; both views are copied, whether key is there already is not
 * looked at. */
void jobspec_push(struct job_pairs *p, struct strv key, struct strv value);

#endif
