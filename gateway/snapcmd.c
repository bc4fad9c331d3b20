/* SPDX-License-Identifier: Apache-2.0 */
/* The inner half of snapshots; see the header. */
#include "config.h"

#include "gateway/snapcmd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/snapjail.h"
#include "gateway/snaptar.h"

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
succeeded(const struct snaptar_counts *n)
{
	char text[128];
	int len = snprintf(
	    text, sizeof(text), "ok %llu %llu %llu %llu\n",
	    (unsigned long long)n->bytes, (unsigned long long)n->entries,
	    (unsigned long long)n->changed, (unsigned long long)n->skipped);

	say(text, (size_t)len);
	return 0;
}

static int
parse(int argc, char **argv, struct snaptar_options *o)
{
	uint64_t v[4];

	if (argc < 6)
		return E_INVALID;
	for (int i = 0; i < 4; i++)
		if (strv_parse_u64(strv_of(argv[i + 1]), UINT64_MAX, true,
				   &v[i]) != 0)
			return E_INVALID;
	if (v[0] > UINT32_MAX || v[1] > UINT32_MAX)
		return E_INVALID;
	o->base = geteuid() == 0 ? (uid_t)v[0] : 0;
	o->ids = geteuid() == 0 ? (unsigned)v[1] : 1;
	o->max_bytes = v[2];
	o->max_entries = v[3];
	o->parts = (const char *const *)(argv + 5);
	o->progress = progress_cb;
	return 0;
}

int
snapcmd_run(int argc, char **argv)
{
	bool restore = strcmp(argv[0], SNAPCMD_RESTORE) == 0;
	struct snaptar_options o = {.parts = NULL};
	struct snaptar_counts n;
	const char *step;
	char *why = NULL;
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	if (parse(argc, argv, &o) != 0)
		return 2;
	if (snapjail_enter(SNAPCMD_TREE, restore,
			   restore ? 0 : o.max_bytes + HEAD_ROOM, &step) != 0) {
		why = xasprintf("%s: %s", step, strerror(errno));
		return failed(E_SYS, why);
	}
	r = restore
		? snaptar_restore(SNAPCMD_TREE, SNAPCMD_ARCHIVE, &o, &n, &why)
		: snaptar_create(SNAPCMD_TREE, SNAPCMD_ARCHIVE, &o, &n, &why);
	r = r == 0 ? succeeded(&n) : failed(r, why != NULL ? why : "");
	/* Nothing is to be looked for that the chroot does not have. */
	_exit(r);
}
