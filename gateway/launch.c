/* SPDX-License-Identifier: Apache-2.0 */
/* What all launchers have in common; see the header. */
#include "config.h"

#include "gateway/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/launch_command.h"
#include "gateway/launch_local.h"

int
launcher_new(const struct launch_options *o, const char *name,
	     struct launcher **out, char **why)
{
	if (strcmp(name, "local") == 0)
		return launch_local_new(o, out, why);
	return launch_command_new(o, name, out, why);
}

void
launcher_free(struct launcher *l)
{
	if (l != NULL)
		l->ops->free(l);
}

void
launcher_set_conf(struct launcher *l, const struct gw_conf *conf)
{
	l->ops->set_conf(l, conf);
}

int
launch_start(struct launcher *l, const struct launch_spec *spec,
	     const struct launch_cbs *cbs, void *arg, struct launch **out,
	     char **why)
{
	struct launch *j;
	int r;

	if (!launch_id_valid(strv_of(spec->id))) {
		*why = xstrdup("id: 24 lower-case hex digits are wanted");
		return E_INVALID;
	}
	if ((r = l->ops->start(l, spec, &j, why)) != 0)
		return r;
	j->cbs = cbs;
	j->arg = arg;
	*out = j;
	return 0;
}

void
launch_adopt(struct launcher *l, const char *id, const struct launch_cbs *cbs,
	     void *arg, struct launch **out)
{
	l->ops->adopt(l, id, out);
	(*out)->cbs = cbs;
	(*out)->arg = arg;
}

void
launch_sweep(struct launcher *l, launch_known_cb known, void *arg)
{
	l->ops->sweep(l, known, arg);
}

void
launch_stop(struct launch *j, uint64_t grace_ms)
{
	j->launcher->ops->stop(j, grace_ms);
}

void
launch_stop_again(struct launch *j, uint64_t grace_ms)
{
	if (j->launcher->ops->stop_again != NULL)
		j->launcher->ops->stop_again(j, grace_ms);
	else
		j->launcher->ops->stop(j, grace_ms);
}

int
launch_pause(struct launch *j, bool pause, const char **why)
{
	if (j->launcher->ops->pause != NULL)
		return j->launcher->ops->pause(j, pause, why);
	*why = "this launcher cannot pause a job";
	return E_UNSUPPORTED;
}

bool
launch_paused(struct launch *j)
{
	return j->launcher->ops->paused != NULL && j->launcher->ops->paused(j);
}

void
launch_drop(struct launch *j)
{
	if (j != NULL)
		j->launcher->ops->drop(j);
}

void
launch_remove(struct launcher *l, const char *id)
{
	l->ops->remove(l, id);
}

int
launch_keep(struct launcher *l, const char *id)
{
	return l->ops->keep != NULL ? l->ops->keep(l, id) : E_UNSUPPORTED;
}

void
launch_unkeep(struct launcher *l, const char *id)
{
	if (l->ops->unkeep != NULL)
		l->ops->unkeep(l, id);
}

int
launch_register(struct launcher *l, const char *id, struct strv token,
		struct strv address, char **why)
{
	if (l->ops->reg == NULL) {
		*why = xstrdup("such jobs do not register");
		return E_DENIED;
	}
	return l->ops->reg(l, id, token, address, why);
}

int
launch_tree(struct launcher *l, const char *id, struct launch_tree *out)
{
	if (l->ops->tree == NULL)
		return E_UNSUPPORTED;
	return l->ops->tree(l, id, out);
}

char *
launch_dir(const struct launcher *l, const char *id)
{
	if (!launch_id_valid(strv_of(id)))
		return NULL;
	return xasprintf("%s/%s", l->jobs_dir, id);
}

bool
launch_id_valid(struct strv id)
{
	if (id.len != LAUNCH_ID_LEN)
		return false;
	for (size_t i = 0; i < id.len; i++)
		if (memchr("0123456789abcdef", id.p[i], 16) == NULL)
			return false;
	return true;
}

const char *
launch_reason_text(enum launch_reason r)
{
	switch (r) {
	case LAUNCH_EXITED:
		return "exited";
	case LAUNCH_TIMEOUT:
		return "timeout";
	case LAUNCH_STOPPED:
		return "stopped";
	case LAUNCH_UNSTARTED:
		return "unstarted";
	case LAUNCH_LOST:
		return "lost";
	case LAUNCH_OOM:
		return "oom";
	}
	return "?";
}
