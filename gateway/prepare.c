/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration needs before it can be served. */
#include "config.h"

#include "gateway/prepare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/certs.h"

int
prepare_log(const struct gw_conf *conf, char **msg)
{
	struct log_options o = {.level = (enum log_level)conf->log_level,
				.program = "sbx-gateway",
				.path = conf->log_file,
				.json = conf->log_json,
				.time = conf->log_file != NULL ||
					isatty(STDERR_FILENO) ||
					getenv("JOURNAL_STREAM") == NULL};

	if (log_setup(&o) == 0)
		return 0;
	*msg = xasprintf("cannot open %s: %s", conf->log_file, strerror(errno));
	return E_SYS;
}

int
prepare_same(const struct gw_conf *old, const struct gw_conf *conf, bool agent,
	     char **msg)
{
	const char *where = conf->path != NULL ? conf->path : "flags";
	struct state_user a, b;
	int r;

	if (strcmp(old->state_dir, conf->state_dir) != 0) {
		*msg = xasprintf("%s: state_dir: cannot change without a "
				 "restart",
				 where);
		return E_INVALID;
	}
	if ((r = state_user(old, &a, msg)) != 0 ||
	    (r = state_user(conf, &b, msg)) != 0)
		return r;
	if (agent && a.uid != b.uid) {
		*msg = xasprintf("%s: user: cannot change without a restart "
				 "while there is an embedded agent",
				 where);
		return E_INVALID;
	}
	return 0;
}

int
prepare_conf(const struct gw_conf *conf, bool single, struct state_user *user,
	     char **msg)
{
	struct state_user u;
	bool made = false;
	int r;

	if ((r = state_user(conf, &u, msg)) != 0)
		return r;
	if (single)
		u.drop = false;
	if ((r = state_prepare(conf, &u, msg)) != 0 ||
	    (r = certs_ensure(conf, &made, msg)) != 0 ||
	    (r = certs_check(conf, msg)) != 0)
		return r;
	if (made)
		log_info("tls.selfsigned", "cert=%s/tls.crt", conf->state_dir);
	*user = u;
	return 0;
}
