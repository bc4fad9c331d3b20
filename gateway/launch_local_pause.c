/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing local jobs. The file `cgroup` in a job's directory names its control
 * group; whether that is frozen is written there, and nowhere else. */
#include "config.h"

#include "gateway/launch_local_int.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

/* A file of its control group, malloc'ed; NULL: it has none. */
static char *
group_file(const struct local_job *j, const char *name)
{
	char *path = xasprintf("%s/cgroup", j->dir), *group = NULL,
	     *file = NULL;
	size_t len;

	if (file_read(path, 4096, &group, &len) == 0 && len > 0)
		file = xasprintf("%s/%s", group, name);
	free(group);
	free(path);
	return file;
}

static bool
group_says(const struct local_job *j, const char *name, const char *what)
{
	char *path = group_file(j, name), *text = NULL;
	bool yes = false;
	size_t len;

	if (path != NULL && file_read(path, 4096, &text, &len) == 0)
		yes = strstr(text, what) != NULL;
	free(text);
	free(path);
	return yes;
}

int
launch_local_pause(struct launch *base, bool pause, const char **why)
{
	struct local_job *j = JOB(base);
	char *path;
	int fd = -1, r = E_UNSUPPORTED;

	if (j->state != RUNNING) {
		*why = "it does not run";
		return E_NOTFOUND;
	}
	path = group_file(j, "cgroup.freeze");
	/* A group that could be made may still have nobody in it. */
	if (path != NULL && group_says(j, "cgroup.events", "populated 1"))
		fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd != -1 && write(fd, pause ? "1" : "0", 1) == 1)
		r = 0;
	else
		*why = "it has no control group that can be frozen "
		       "([local] cgroup)";
	fd_close(&fd);
	free(path);
	return r;
}

bool
launch_local_paused(struct launch *base)
{
	return group_says(JOB(base), "cgroup.freeze", "1");
}
