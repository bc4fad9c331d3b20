/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration from the environment; see the header. */
#include "config.h"

#include "agent/agentconf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/uidpool.h"
#include "agent/baseenv.h"
#include "agent/execreq.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/token.h"

#define AGENTCONF_GRACE_MS    3000
#define AGENTCONF_RESUME_MS   60000
#define AGENTCONF_TIME_MAX_MS 3600000
#define AGENTCONF_TOKEN_MAX   4096

/* A variable's value, NULL when unset or empty. */
static const char *
agentconf_env(const char *name)
{
	const char *s = getenv(name);

	return s != NULL && *s != '\0' ? s : NULL;
}

/* A number; absent leaves *out as it is. */
static int
agentconf_number(const char *name, uint64_t max, uint64_t *out, char **why)
{
	const char *s = agentconf_env(name);

	if (s == NULL || strv_parse_u64(strv_of(s), max, false, out) == 0)
		return 0;
	*why = xasprintf("%s=%s: not a number up to %llu", name, s,
			 (unsigned long long)max);
	return E_INVALID;
}

/* Its bytes in the block that the kernel shows are overwritten. */
static void
agentconf_wipe(const char *name)
{
	char *s = getenv(name);

	if (s == NULL)
		return;
	mem_secure_zero(s, strlen(s));
	(void)unsetenv(name);
}

static int
agentconf_token(struct agentconf *c, char **why)
{
	const char *s = agentconf_env("SBX_TOKEN");
	int r = 0;

	if (s != NULL && !token_plausible(strv_of(s), AGENTCONF_TOKEN_MAX)) {
		*why = xstrdup("SBX_TOKEN: has characters that no header "
			       "could carry");
		r = E_INVALID;
	} else if (s != NULL) {
		c->token = xstrdup(s);
	}
	agentconf_wipe("SBX_TOKEN");
	return r;
}

/* "fd:N", a listening socket that we were given. */
static int
agentconf_listen_fd(struct agentconf *c, struct strv number, char **why)
{
	uint64_t fd;

	c->listen.len = sizeof(c->listen.u);
	if (strv_parse_u64(number, 1023, true, &fd) != 0 || fd < 3 ||
	    getsockname((int)fd, &c->listen.u.sa, &c->listen.len) != 0) {
		*why = xstrdup("SBX_LISTEN=fd:N: no such socket");
		return E_INVALID;
	}
	c->listen_fd = (int)fd;
	return 0;
}

static int
agentconf_listen(struct agentconf *c, char **why)
{
	const char *s = agentconf_env("SBX_LISTEN");
	uint64_t port = 8000;
	char *text;
	int r;

	if ((r = agentconf_number("SBX_PORT", 65535, &port, why)) != 0)
		return r;
	if (s != NULL && strncmp(s, "fd:", 3) == 0)
		return agentconf_listen_fd(c, strv_of(s + 3), why);
	text = s != NULL ? xstrdup(s)
			 : xasprintf("tcp:0.0.0.0:%u", (unsigned)port);
	r = addr_parse(strv_of(text), &c->listen);
	if (r != 0)
		*why = xasprintf("SBX_LISTEN=%s: unix:/path, tcp:ip:port or "
				 "fd:N is wanted",
				 text);
	free(text);
	return r == 0 ? 0 : E_INVALID;
}

static int
agentconf_isolation(struct agentconf *c, char **why)
{
	const char *s = agentconf_env("SBX_ISOLATION");

	if (s == NULL || strcmp(s, "required") == 0)
		return 0;
	if (strcmp(s, "best-effort") == 0) {
		c->best_effort = true;
		return 0;
	}
	*why =
	    xasprintf("SBX_ISOLATION=%s: required or best-effort is wanted", s);
	return E_INVALID;
}

/* A slice of the ids, so that agents which cannot see each other's leases never
 * share one. One id is the agent's own. */
static int
agentconf_uids(struct agentconf *c, char **why)
{
	const char *s = agentconf_env("SBX_UIDS");
	struct strv rest = strv_of(s), first;
	uint64_t lo = UIDPOOL_FIRST, hi = UIDPOOL_LAST;

	if (s != NULL && (!strv_cut(&rest, '-', &first) ||
			  strv_parse_u64(first, UIDPOOL_LAST, true, &lo) != 0 ||
			  strv_parse_u64(rest, UIDPOOL_LAST, true, &hi) != 0 ||
			  lo < UIDPOOL_FIRST || hi <= lo)) {
		*why = xasprintf("SBX_UIDS=%s: FIRST-LAST is wanted, two ids "
				 "at least, within %d-%d",
				 s, UIDPOOL_FIRST, UIDPOOL_LAST);
		return E_INVALID;
	}
	c->uid_first = (uid_t)lo;
	c->uid_last = (uid_t)hi;
	return 0;
}

/* A time up to an hour; absent leaves *out as it is. */
static int
agentconf_time(const char *name, uint64_t *out, char **why)
{
	const char *s = agentconf_env(name);
	uint64_t ms;

	if (s == NULL)
		return 0;
	if (strv_parse_duration(strv_of(s), &ms) == 0 &&
	    ms <= AGENTCONF_TIME_MAX_MS) {
		*out = ms;
		return 0;
	}
	*why = xasprintf("%s=%s: not a time up to an hour", name, s);
	return E_INVALID;
}

static int
agentconf_cgroup(struct agentconf *c, char **why)
{
	const char *s = agentconf_env("SBX_CGROUP");

	if (s == NULL)
		return 0;
	if (*s != '/' && strcmp(s, "off") != 0) {
		*why = xasprintf("SBX_CGROUP=%s: off or an absolute path is "
				 "wanted",
				 s);
		return E_INVALID;
	}
	c->cgroup = xstrdup(s);
	return 0;
}

/* Where servers of a dedicated agent may put socket files. */
static int
agentconf_proxy_dir(struct agentconf *c, char **why)
{
	const char *s = agentconf_env("SBX_PROXY_DIR");

	if (s == NULL)
		return 0;
	if (*s != '/') {
		*why = xasprintf("SBX_PROXY_DIR=%s: an absolute path is wanted",
				 s);
		return E_INVALID;
	}
	c->proxy_dir = xstrdup(s);
	return 0;
}

static int
agentconf_nemo(struct agentconf *c, char **why)
{
	const char *bind = agentconf_env("TB_EXEC_BIND");
	uint64_t port = 0;
	char *text;
	int r;

	if (agentconf_env("TB_EXEC_PORT") == NULL)
		return 0;
	if ((r = agentconf_number("TB_EXEC_PORT", 65535, &port, why)) != 0)
		return r;
	if (c->host_mode) {
		*why = xstrdup("TB_EXEC_PORT: not in host mode");
		return E_INVALID;
	}
	if (bind == NULL || strcmp(bind, "localhost") == 0)
		bind = "127.0.0.1";
	text =
	    xasprintf(strchr(bind, ':') != NULL ? "tcp:[%s]:%u" : "tcp:%s:%u",
		      bind, (unsigned)port);
	r = addr_parse(strv_of(text), &c->nemo);
	free(text);
	if (r != 0) {
		*why =
		    xasprintf("TB_EXEC_BIND=%s: an IP address is wanted", bind);
		return E_INVALID;
	}
	c->has_nemo = true;
	return 0;
}

static int
agentconf_sockets(struct agentconf *c, char **why)
{
	const char *control = agentconf_env("SBX_CONTROL");
	const char *mode = agentconf_env("SBX_SOCKET_MODE");
	uint64_t uid = (uid_t)-1;
	char *end;
	int r;

	if ((r = agentconf_number("SBX_CONTROL_UID", UINT32_MAX - 1, &uid,
				  why)) != 0)
		return r;
	c->control_uid = (uid_t)uid;
	if (mode != NULL) {
		unsigned long m = strtoul(mode, &end, 8);

		if (*end != '\0' || m == 0 || m > 0777) {
			*why = xasprintf("SBX_SOCKET_MODE=%s: not an octal "
					 "mode",
					 mode);
			return E_INVALID;
		}
		c->socket_mode = (mode_t)m;
	}
	if (control == NULL)
		return 0;
	if (strncmp(control, "fd:", 3) == 0) {
		c->control = xstrdup(control);
		return 0;
	}
	if (strncmp(control, "unix:/", 6) != 0) {
		*why = xasprintf("SBX_CONTROL=%s: unix:/path or fd:N is wanted",
				 control);
		return E_INVALID;
	}
	c->control = xstrdup(control + 5);
	return 0;
}

static int
agentconf_base_env(struct agentconf *c, char **why)
{
	const char *s = agentconf_env("SBX_BASE_ENV");
	char *reason = NULL;

	if (s == NULL || baseenv_parse(s, &c->base_env, &reason) == 0)
		return 0;
	*why = xasprintf("SBX_BASE_ENV: %s", reason);
	free(reason);
	return E_INVALID;
}

int
agentconf_read(struct agentconf *c, char **why)
{
	uint64_t host_mode = 0, idle = 0, capacity = 0, ready = 0;
	const char *homes = agentconf_env("SBX_HOMES");
	int r;

	memset(c, 0, sizeof(*c));
	c->listen_fd = c->ready_fd = -1;
	c->socket_mode = 0660;
	c->grace_ms = AGENTCONF_GRACE_MS;
	c->resume_ms = AGENTCONF_RESUME_MS;
	c->homes = xstrdup(homes != NULL ? homes : "/sbx/homes");
	if ((r = agentconf_token(c, why)) != 0 ||
	    (r = agentconf_listen(c, why)) != 0 ||
	    (r = agentconf_isolation(c, why)) != 0 ||
	    (r = agentconf_base_env(c, why)) != 0 ||
	    (r = agentconf_sockets(c, why)) != 0 ||
	    (r = agentconf_proxy_dir(c, why)) != 0 ||
	    (r = agentconf_cgroup(c, why)) != 0 ||
	    (r = agentconf_uids(c, why)) != 0 ||
	    (r = agentconf_time("SBX_GRACE", &c->grace_ms, why)) != 0 ||
	    (r = agentconf_time("SBX_RESUME", &c->resume_ms, why)) != 0 ||
	    (r = agentconf_number("SBX_HOST_MODE", 1, &host_mode, why)) != 0 ||
	    (r = agentconf_number("SBX_IDLE_TIMEOUT", UINT32_MAX, &idle,
				  why)) != 0 ||
	    (r = agentconf_number("SBX_CAPACITY", 44999, &capacity, why)) !=
		0 ||
	    (r = agentconf_number("SBX_READY_FD", 1023, &ready, why)) != 0)
		return r;
	if (ready > 2)
		c->ready_fd = (int)ready;
	c->host_mode = host_mode == 1;
	if ((r = agentconf_nemo(c, why)) != 0)
		return r;
	c->idle_ms = idle * 1000;
	c->capacity = (unsigned)capacity;
	return 0;
}

void
agentconf_clear(struct agentconf *c)
{
	mem_free_secret(c->token);
	free(c->homes);
	free(c->cgroup);
	free(c->control);
	free(c->proxy_dir);
	execreq_env_free(c->base_env);
	memset(c, 0, sizeof(*c));
}
