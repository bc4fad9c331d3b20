/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch volumes: directories of a job's own, by name, that are seen at a
 * place of its choice. Names become parts of paths on this side, places are
 * looked up in the job's root.
 */
#ifndef SBX_BASE_SCRATCH_H
#define SBX_BASE_SCRATCH_H

#include <stdbool.h>

#include "base/str.h"

#define SCRATCH_MAX      16 /* of a job */
#define SCRATCH_NAME_MAX 63 /* bytes of a name */
#define SCRATCH_PATH_MAX 1024

/* 1 to 63 of a-z 0-9 -, as in DNS labels (RFC 1123). */
bool scratch_name_ok(struct strv name);
/* An absolute path without empty parts, "." and "..", that is not the root and
 * lies in none of /proc, /sys, /dev and /sbx. */
bool scratch_place_ok(const char *path);
/* "NAME PLACE"; *place points into entry. False: it is not of that form. */
bool scratch_parse(const char *entry, struct strv *name, const char **place);

#endif
