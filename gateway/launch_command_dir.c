/* SPDX-License-Identifier: Apache-2.0 */
/* How the directories of jobs by command go. */
#include "config.h"

#include "gateway/launch_command_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

void
launch_command_remove(struct launcher *base, const char *id)
{
	static const char *const names[] = {
	    "log",    "log.1", "exit.json", "begun",      "env",
	    "env.sh", "token", "address",   "agent.sock", "control.sock"};
	char *dir = launch_dir(base, id);

	if (dir == NULL)
		return;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		launch_command_unlink(dir, names[i]);
	if (rmdir(dir) != 0 && errno != ENOENT)
		log_warn("launch.remove", "dir=%s error=\"%s\"",
			 log_esc(strv_of(dir)), strerror(errno));
	free(dir);
}

static void
swept_ended(struct launch *j, const struct launch_end *end, void *arg)
{
	struct launcher *l = j->launcher;
	char id[LAUNCH_ID_LEN + 1];

	(void)end;
	(void)arg;
	(void)snprintf(id, sizeof(id), "%s", j->id);
	launch_drop(j);
	launch_remove(l, id);
}

static void
swept_started(struct launch *j, const char *message, void *arg)
{
	(void)j;
	(void)message;
	(void)arg;
}

static void
swept_ready(struct launch *j, const char *http, const char *control, void *arg)
{
	(void)control;
	swept_started(j, http, arg);
}

/* A job that nobody knows is adopted, by nobody, to be stopped. */
void
launch_command_sweep(struct launcher *base, launch_known_cb known, void *arg)
{
	static const struct launch_cbs cbs = {swept_started, swept_ready,
					      swept_ended};
	DIR *d = opendir(base->jobs_dir);
	struct dirent *de;
	struct launch *j;

	while (d != NULL && (de = readdir(d)) != NULL) {
		if (!launch_id_valid(strv_of(de->d_name)) ||
		    launch_command_find(CMD(base), de->d_name) != NULL ||
		    known(de->d_name, arg))
			continue;
		launch_adopt(base, de->d_name, &cbs, NULL, &j);
		launch_stop(j, 0);
	}
	if (d != NULL)
		(void)closedir(d);
}
