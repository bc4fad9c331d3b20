/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A volume and where it is mounted are two lists that name each other; a job
 * has both in one. A volume that is mounted nowhere, and a mount of none, are
 * mistakes.
 */
#include "config.h"

#include "gateway/cwvolume.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/scratch.h"
#include "gateway/cwquantity.h"
#include "gateway/cwsvc_int.h"

#define VOLUMES "sandbox.spec.volumes"
#define MOUNTS  "sandbox.spec.containers[0].volume_mounts"

enum { MEDIUM_MEMORY = 2 };

static bool
bad(struct cwcall *c, const char *list, size_t i, const char *field,
    const char *why)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s[%zu]%s", list, i, field);
	cwcall_bad_field(c, path, "%s", why);
	return false;
}

static bool
unsupported(struct cwcall *c, const char *list, size_t i, const char *field,
	    const char *why)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s[%zu]%s", list, i, field);
	cwsvc_unsupported(c, path, why);
	return false;
}

/* What it begins with. There is room for one: a job begins with one. */
static bool
take_restore(struct cwcall *c, const struct cwmsg *scratch, size_t i,
	     struct job_spec *s)
{
	const char *id = cwmsg_text(scratch, "restore_from_snapshot_id");

	if (id[0] == '\0')
		return true;
	if (s->restore != NULL)
		return unsupported(c, VOLUMES, i,
				   ".scratch.restore_from_snapshot_id",
				   "one volume can begin with a snapshot");
	if (strlen(id) > JOBSPEC_TEXT_BYTES)
		return bad(c, VOLUMES, i, ".scratch.restore_from_snapshot_id",
			   "is too long");
	s->restore = xstrdup(id);
	s->restore_volume = xstrdup(s->volumes[i].source);
	return true;
}

static bool
take_volume(struct cwcall *c, const struct cwmsg *v, size_t i,
	    struct job_spec *s)
{
	const struct cwmsg *scratch = cwmsg_msg(v, "scratch");
	struct strv name = cwmsg_view(v, "name"),
		    size = cwmsg_view(scratch, "size");
	struct job_volume *to;
	uint64_t bytes;

	if (!scratch_name_ok(name))
		return bad(c, VOLUMES, i, ".name",
			   "must be 1 to 63 of a-z 0-9 -");
	if (jobspec_scratch(s, name) != NULL)
		return bad(c, VOLUMES, i, ".name", "is there twice");
	if (scratch == NULL)
		return unsupported(c, VOLUMES, i, "",
				   "only scratch volumes are supported");
	if (cwmsg_int(scratch, "medium") == MEDIUM_MEMORY)
		return unsupported(c, VOLUMES, i, ".scratch.medium",
				   "volumes are on disk");
	if (size.len != 0 && cwquantity_whole(size, &bytes) != 0)
		return bad(c, VOLUMES, i, ".scratch.size",
			   "must be a quantity like 10Gi");
	s->volumes =
	    xreallocarray(s->volumes, s->nvolumes + 1, sizeof(*s->volumes));
	to = &s->volumes[s->nvolumes++];
	memset(to, 0, sizeof(*to));
	to->type = xstrdup("scratch");
	to->source = xstrdup(name.p);
	return take_restore(c, scratch, i, s);
}

static bool
take_mount(struct cwcall *c, const struct cwmsg *m, size_t i,
	   struct job_spec *s)
{
	struct job_volume *v = jobspec_scratch(s, cwmsg_view(m, "volume"));
	const char *place = cwmsg_text(m, "mount_path");

	if (v == NULL)
		return bad(c, MOUNTS, i, ".volume", "there is no such volume");
	if (v->path != NULL)
		return unsupported(c, MOUNTS, i, ".volume",
				   "a volume is mounted once");
	if (!scratch_place_ok(place))
		return bad(c, MOUNTS, i, ".mount_path",
			   "must be an absolute path, not of the system's "
			   "own file systems");
	for (size_t k = 0; k < s->nvolumes; k++)
		if (s->volumes[k].path != NULL &&
		    strcmp(s->volumes[k].path, place) == 0)
			return bad(c, MOUNTS, i, ".mount_path",
				   "is there twice");
	if (cwmsg_int(m, "read_only") != 0)
		return unsupported(c, MOUNTS, i, ".read_only",
				   "scratch volumes are writable");
	if (cwmsg_view(m, "sub_path").len != 0)
		return unsupported(c, MOUNTS, i, ".sub_path",
				   "a volume is mounted as a whole");
	v->path = xstrdup(place);
	return true;
}

bool
cwvolume_take(struct cwcall *c, const struct cwmsg *spec, struct job_spec *s)
{
	const struct cwmsg *container = cwmsg_msg_at(spec, "containers", 0);
	size_t n = cwmsg_count(spec, "volumes"),
	       nmounts = cwmsg_count(container, "volume_mounts");

	if (n > SCRATCH_MAX) {
		cwcall_bad_field(c, VOLUMES, "are more than %d", SCRATCH_MAX);
		return false;
	}
	for (size_t i = 0; i < n; i++)
		if (!take_volume(c, cwmsg_msg_at(spec, "volumes", i), i, s))
			return false;
	for (size_t i = 0; i < nmounts; i++)
		if (!take_mount(c, cwmsg_msg_at(container, "volume_mounts", i),
				i, s))
			return false;
	for (size_t i = 0; i < n; i++)
		if (s->volumes[i].path == NULL)
			return bad(c, VOLUMES, i, "", "is not mounted");
	return true;
}
