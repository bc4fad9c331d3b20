/* SPDX-License-Identifier: Apache-2.0 */
/* Where the agent of a job by command is: at a configured address, or at one
 * that it registers; it is ready when somebody accepts there. */
#include "config.h"

#include "gateway/launch_command_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/template.h"
#include "net/addr.h"
#include "net/dialer.h"

#define DIAL_WAIT_MS 600000 /* for an agent at a known address */

static void
say_ready(struct cmd_job *j, const char *address)
{
	if (j->said_ready || j->state == OVER)
		return;
	launch_command_started(j);
	j->said_ready = true;
	j->base.cbs->ready(&j->base, address, NULL, j->base.arg);
}

/* A socket in the job's directory becomes the workers', who connect to it. */
static void
give_socket(struct cmd_job *j, const struct addr *a)
{
	struct cmd_launcher *l = CMD(j->base.launcher);
	size_t len = strlen(j->dir);

	if (geteuid() == 0 && l->worker_uid != (uid_t)-1 && addr_is_unix(a) &&
	    strncmp(a->u.un.sun_path, j->dir, len) == 0 &&
	    a->u.un.sun_path[len] == '/' &&
	    lchown(a->u.un.sun_path, l->worker_uid, (gid_t)-1) != 0)
		log_warn("launch.agent", "job=%s error=\"%s\"", j->base.id,
			 strerror(errno));
}

static void
dialed_cb(int err, int fd, const struct addr *used, void *arg)
{
	struct cmd_job *j = arg;
	char text[ADDR_TEXT_MAX], *address;

	j->dial = NULL;
	if (err != 0)
		return; /* the status says what is wrong */
	fd_close(&fd);
	(void)addr_text(used, text);
	give_socket(j, used);
	address =
	    addr_is_unix(used) ? xstrdup(text) : xasprintf("tcp:%s", text);
	say_ready(j, address);
	free(address);
}

static int
dial(struct cmd_job *j, const char *address)
{
	struct dial_options o = {
	    .naddrs = 1, .wait_ms = DIAL_WAIT_MS, .done = dialed_cb, .arg = j};
	int r;

	if ((r = addr_parse(strv_of(address), &o.addrs[0])) != 0)
		return r;
	if (j->dial != NULL)
		dial_cancel(j->dial);
	j->dial = dial_start(CMD(j->base.launcher)->loop, &o);
	return 0;
}

/* The configured address, or the one that was registered. */
void
launch_command_agent(struct cmd_job *j)
{
	const struct gw_launcher *s = launch_command_settings(j);
	char *address = launch_command_get(j->dir, "address"), **argv = NULL,
	     *why = NULL;

	if (address == NULL && s != NULL && s->agent != NULL &&
	    (argv = launch_command_expand(j, NULL, s->agent, &why)) != NULL)
		address = xstrdup(argv[0]);
	if (address != NULL && dial(j, address) != 0)
		log_error("launch.agent", "job=%s address=%s error=\"%s\"",
			  j->base.id, log_esc(strv_of(address)),
			  "not an address");
	template_free(argv);
	free(address);
	free(why);
}

static bool
address_allowed(const struct gw_launcher *s, struct strv address)
{
	struct addr a;

	if (!strv_starts(address, STRV("tcp:")) ||
	    addr_parse(address, &a) != 0 || addr_is_unix(&a))
		return false;
	for (size_t i = 0; s != NULL && i < s->naddresses; i++)
		if (addr_net_has(&s->addresses[i], &a))
			return true;
	return false;
}

int
launch_command_register(struct launcher *base, const char *id,
			struct strv token, struct strv address, char **why)
{
	struct cmd_job *j = launch_command_find(CMD(base), id);
	char *want = j != NULL ? launch_command_get(j->dir, "token") : NULL,
	     *text;
	bool good = want != NULL && token_equal(strv_of(want), token);

	mem_free_secret(want);
	if (!good || j->state == OVER) {
		*why = xstrdup("token: not of a job that may still register");
		return E_DENIED;
	}
	if (!address_allowed(launch_command_settings(j), address)) {
		*why = xstrdup("address: not a tcp:IP:PORT within [launcher] "
			       "addresses");
		return E_INVALID;
	}
	text = xstrndup(address.p, address.len);
	launch_command_unlink(j->dir, "token"); /* once */
	(void)!launch_command_put(j->dir, "address", text);
	free(text);
	launch_command_agent(j);
	return 0;
}
