/* SPDX-License-Identifier: Apache-2.0 */
/* Running the process that writes an archive, beside the loop. */
#ifndef SBX_GATEWAY_SNAPRUN_H
#define SBX_GATEWAY_SNAPRUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "gateway/snaptar.h"

#define SNAPRUN_SHA_LEN 64

struct loop;
struct snaprun;

struct snaprun_spec {
	const char *program; /* sbx-gateway; NULL: the one beside us */
	int archive_fd;      /* borrowed for the call, as the next one */
	int tree_fd;
	uid_t uid; /* first of the tree's owner's ids */
	unsigned uids;
	uint64_t max_bytes, max_entries;
	const char *volume; /* NULL: all */
};

struct snaprun_end {
	int err;         /* 0: all is done, and on disk */
	const char *why; /* else, a line */
	struct snaptar_counts n;
	char sha256[SNAPRUN_SHA_LEN + 1]; /* of the archive, in hex */
};

typedef void (*snaprun_done_cb)(const struct snaprun_end *e, void *arg);

/* Never calls back from inside; the callback is the end of it. It ends with
 * this process. */
struct snaprun *snaprun_start(struct loop *l, const struct snaprun_spec *s,
			      snaprun_done_cb done, void *arg);
/* How far it is; changed and skipped are told at the end. */
const struct snaptar_counts *snaprun_counts(const struct snaprun *x);
/* Kills it; no callback. */
void snaprun_cancel(struct snaprun *x);

#endif
