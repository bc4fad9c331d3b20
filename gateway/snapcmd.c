/* SPDX-License-Identifier: Apache-2.0 */
/* The inner half of snapshots; see the header. */
#include "config.h"

#include "gateway/snapcmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/scratch.h"
#include "base/token.h"
#include "gateway/snapjail.h"
#include "gateway/snaptar.h"
#include "net/tlssha.h"

#define HEAD_ROOM (64ULL << 20) /* of an archive, beside what is in files */

bool
snapcmd_is(const char *word)
{
	return strcmp(word, SNAPCMD_CREATE) == 0 ||
	       strcmp(word, SNAPCMD_RESTORE) == 0;
}

static void
say(const char *text, size_t len)
{
	/* Nobody to hear it: the gateway has ended. */
	if (fd_write_all(SNAPCMD_REPORT, text, len) != 0)
		_exit(1);
}

static void
progress_cb(const struct snaptar_counts *n, void *arg)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "p %llu %llu\n",
			   (unsigned long long)n->bytes,
			   (unsigned long long)n->entries);

	(void)arg;
	say(text, (size_t)len);
}

static int
failed(int err, const char *why)
{
	char *text = xasprintf("error %d %.600s", err, why);

	for (char *p = text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
			*p = '?';
	say(text, strlen(text));
	say("\n", 1);
	free(text);
	return 1;
}

static int
succeeded(const struct snaptar_counts *n, struct tlssha *sha)
{
	char text[224], hex[2 * TLSSHA_LEN + 1];
	uint8_t sum[TLSSHA_LEN];
	int len;

	tlssha_end(sha, sum);
	token_hex_encode(hex, sum, sizeof(sum));
	len = snprintf(text, sizeof(text), "ok %llu %llu %llu %llu %s\n",
		       (unsigned long long)n->bytes,
		       (unsigned long long)n->entries,
		       (unsigned long long)n->changed,
		       (unsigned long long)n->skipped, hex);
	say(text, (size_t)len);
	return 0;
}

/* What is a job's in its fs/: the root, or what it changed in an image, and
 * what is mounted there. The homes of a host's sandboxes end with it. */
#define FIXED "upper", "data/root", "data/home", "data/tmp", "data/vartmp"
static const char *const ignored[] = {"scratch", NULL};

struct parts {
	const char *v[5 + SCRATCH_MAX + 1];
	char scratch[SCRATCH_MAX][SCRATCH_NAME_MAX + 16];
};

static bool
put_scratch(struct parts *p, size_t i, size_t at, const char *name)
{
	if (i == SCRATCH_MAX || !scratch_name_ok(strv_of(name)))
		return false;
	(void)snprintf(p->scratch[i], sizeof(p->scratch[i]),
		       "scratch/%.*s/data", SCRATCH_NAME_MAX, name);
	p->v[at] = p->scratch[i];
	return true;
}

/* All of it; the scratch volumes are those that are there. */
static void
all_parts(struct parts *p, int tree)
{
	static const char *const fixed[] = {FIXED};
	int fd = openat(tree, "scratch", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *de;
	size_t n = 0;

	memcpy(p->v, fixed, sizeof(fixed));
	while (d != NULL && (de = readdir(d)) != NULL)
		if (put_scratch(p, n, ARRAY_LEN(fixed) + n, de->d_name))
			n++;
	if (d != NULL)
		(void)closedir(d);
}

static int
parse_bounds(char **argv, struct snaptar_options *o)
{
	if (strv_parse_u64(strv_of(argv[0]), UINT64_MAX, true, &o->max_bytes) !=
		0 ||
	    strv_parse_u64(strv_of(argv[1]), UINT64_MAX, true,
			   &o->max_entries) != 0)
		return E_INVALID;
	return 0;
}

/* Who is not root sees himself as root, and has no other ids. */
static int
parse_ids(const char *uid, const char *uids, struct snaptar_options *o)
{
	uint64_t first, n;

	o->ids = 1;
	if (geteuid() != 0)
		return 0;
	if (uid == NULL || uids == NULL ||
	    strv_parse_u64(strv_of(uid), UINT32_MAX, true, &first) != 0 ||
	    strv_parse_u64(strv_of(uids), UINT32_MAX, true, &n) != 0)
		return E_INVALID;
	o->base = (uid_t)first;
	o->ids = n != 0 ? (unsigned)n : UINT32_MAX;
	return 0;
}

/* --- creating ---------------------------------------------------------- */
static int
create(int argc, char **argv)
{
	struct snaptar_options o = {.progress = progress_cb};
	struct parts p = {.v = {NULL}};
	struct snaptar_counts n;
	const char *step;
	char *why = NULL;
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	o.parts = p.v;
	if (argc == 6 && !put_scratch(&p, 0, 0, argv[5]))
		return 2;
	if (argc == 5)
		all_parts(&p, SNAPCMD_TREE);
	if ((argc != 5 && argc != 6) || parse_ids(argv[1], argv[2], &o) != 0 ||
	    parse_bounds(argv + 3, &o) != 0)
		return 2;
	/* Before the jail: OpenSSL reads its configuration. */
	if ((o.sha = tlssha_new()) == NULL)
		return failed(E_SYS, "SHA-256 is not to be had");
	if (snapjail_enter(SNAPCMD_TREE, false, o.max_bytes + HEAD_ROOM,
			   &step) != 0) {
		why = xasprintf("%s: %s", step, strerror(errno));
		return failed(E_SYS, why);
	}
	r = snaptar_create(SNAPCMD_TREE, SNAPCMD_ARCHIVE, &o, &n, &why);
	return r == 0 ? succeeded(&n, o.sha)
		      : failed(r, why != NULL ? why : "");
}

/* --- restoring --------------------------------------------------------- */
/* [VOLUME AS] [SHA256], all that argv has. */
static int
parse_rest(int argc, char **argv, struct parts *p, struct parts *given,
	   struct snaptar_options *o, uint8_t sum[TLSSHA_LEN])
{
	if (argc >= 2) {
		if (!put_scratch(given, 0, 0, argv[0]) ||
		    !put_scratch(p, 0, 0, argv[1]))
			return E_INVALID;
		o->from = given->v[0];
		o->to = p->v[0];
	} else {
		all_parts(p, AT_FDCWD);
	}
	if (argc % 2 == 0)
		return 0;
	if (token_hex_decode(strv_of(argv[argc - 1]), sum, TLSSHA_LEN) != 0)
		return E_INVALID;
	o->sum = sum;
	return 0;
}

/* Opens both, and locks us in. NULL, or why not, malloc'ed. */
static char *
enter(const char *path, struct snaptar_options *o, int *archive, int *tree)
{
	const char *step = "the snapshot's file";

	if (o->sum != NULL && (o->sha = tlssha_new()) == NULL)
		return xstrdup("SHA-256 is not to be had");
	*archive = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (*archive >= 0)
		*tree = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*archive < 0 || *tree < 0 ||
	    snapjail_enter(*tree, true, 0, &step) != 0)
		return xasprintf("%s: %s", step, strerror(errno));
	return NULL;
}

static int
restore(int argc, char **argv)
{
	struct parts p = {.v = {NULL}}, given = {.v = {NULL}};
	struct snaptar_options o = {.parts = p.v, .ignored = ignored};
	uint8_t sum[TLSSHA_LEN];
	struct snaptar_counts n;
	int archive = -1, tree = -1;
	char *why = NULL;

	if (argc < 4 || argc > 7 ||
	    parse_ids(getenv("SBX_FS_UID"), getenv("SBX_FS_UIDS"), &o) != 0 ||
	    parse_bounds(argv + 2, &o) != 0 ||
	    parse_rest(argc - 4, argv + 4, &p, &given, &o, sum) != 0)
		return 2;
	why = enter(argv[1], &o, &archive, &tree);
	if (why == NULL && snaptar_restore(tree, archive, &o, &n, &why) == 0)
		return 0;
	(void)dprintf(STDERR_FILENO, "the snapshot could not be restored: %s\n",
		      why != NULL ? why : "");
	return 1;
}

int
snapcmd_run(int argc, char **argv)
{
	int r = strcmp(argv[0], SNAPCMD_RESTORE) == 0 ? restore(argc, argv)
						      : create(argc, argv);

	/* Nothing is to be looked for that the chroot does not have. */
	_exit(r);
}
