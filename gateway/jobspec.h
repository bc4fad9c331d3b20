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
#define JOBSPEC_TEXT_BYTES  512 /* other texts */
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

struct job_volume {
	char *type, *source, *path;
	bool read_only;
};

struct job_spec {
	char *image, *space; /* at most one of them */
	struct job_words command, arguments;
	struct job_pairs env, secrets, labels;
	char *flavor;
	uint64_t timeout_s; /* 0: not said */
	uint16_t ports[JOBSPEC_PORTS_MAX];
	size_t nports;
	struct job_volume *volumes;
	size_t nvolumes;
	char *request_id; /* NULL: none */
	bool sandbox;     /* its process is our agent, command is not used */
};

void jobspec_clear(struct job_spec *s); /* wipes the secrets */
/* Values of secrets are wiped and freed, names stay. */
void jobspec_forget(struct job_spec *s);

/* Reads v. E_INVALID: *why says which field and what about it (never a value).
 * *ignored, when not NULL, gets the names of unknown fields, separated by
 * ", ". stored: v is what jobspec_add_json() wrote. */
int jobspec_parse(const struct json *v, bool stored, struct job_spec *out,
		  struct strbuf *ignored, struct strbuf *why) SBX_MUST_CHECK;
/* The members of a Job object, without braces: "dockerImage":…,"command":… */
void jobspec_add_json(const struct job_spec *s, struct strbuf *b);

/* {"key": "value", …} alone. *out is jobspec_clear_pairs()'s; E_INVALID as
 * above. */
int jobspec_parse_labels(const struct json *v, struct job_pairs *out,
			 struct strbuf *why) SBX_MUST_CHECK;
/* The same object, with its braces. */
void jobspec_add_labels(const struct job_pairs *p, struct strbuf *b);
void jobspec_clear_pairs(struct job_pairs *p);
/* The value of key, borrowed; NULL: there is none. */
const char *jobspec_pair(const struct job_pairs *p, const char *key);
/* Adds a pair; both views are copied, whether key is there already is not
 * looked at. */
void jobspec_push(struct job_pairs *p, struct strv key, struct strv value);

#endif
