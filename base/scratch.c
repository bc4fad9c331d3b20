/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/scratch.h"

#include <string.h>

#include "base/defs.h"

#define ALPHABET "abcdefghijklmnopqrstuvwxyz0123456789-"

/* path is dir, or in it. */
static bool
is_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 &&
	       (path[n] == '\0' || path[n] == '/');
}

bool
scratch_name_ok(struct strv name)
{
	for (size_t i = 0; i < name.len; i++)
		if (name.p[i] == '\0' || strchr(ALPHABET, name.p[i]) == NULL)
			return false;
	return name.len != 0 && name.len <= SCRATCH_NAME_MAX &&
	       name.p[0] != '-' && name.p[name.len - 1] != '-';
}

bool
scratch_place_ok(const char *path)
{
	static const char *const ours[] = {"/proc", "/sys", "/dev", "/sbx"};
	size_t len = strlen(path);

	if (*path != '/' || len < 2 || len > SCRATCH_PATH_MAX ||
	    path[len - 1] == '/' || strstr(path, "//") != NULL)
		return false;
	for (const char *at = path; at != NULL; at = strchr(at + 1, '/'))
		if (is_in(at, "/.") || is_in(at, "/.."))
			return false;
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (is_in(path, ours[i]))
			return false;
	return true;
}

bool
scratch_parse(const char *entry, struct strv *name, const char **place)
{
	const char *blank = strchr(entry, ' ');
	struct strv first;

	if (blank == NULL)
		return false;
	first = (struct strv){entry, (size_t)(blank - entry)};
	if (!scratch_name_ok(first) || !scratch_place_ok(blank + 1))
		return false;
	*name = first;
	*place = blank + 1;
	return true;
}
