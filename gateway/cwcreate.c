/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CreateSandbox: what is asked for becomes a job. What cannot be done here is
 * refused with the field's name, never passed over. The spec is kept with the
 * job as it was said (without the contents of files), for who asks later.
 */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/cwjson.h"
#include "gateway/cwquantity.h"
#include "gateway/cwschema.h"
#include "gateway/cwsvc_int.h"
#include "gateway/cwvolume.h"
#include "gateway/gwconf.h"
#include "gateway/route.h"

#define SPEC      "sandbox.spec"
#define CONTAINER SPEC ".containers[0]"

/* Ends at once on TERM, as who stops a sandbox wants it. */
static const char *const default_argv[] = {
    "/bin/sh", "-c", "trap \"exit 0\" TERM INT; sleep infinity & wait"};

struct making {
	struct cwcall *c;
	const struct cwmsg *spec, *container;
	struct job_spec s;
};

/* --- refusals ---------------------------------------------------------- */

static bool bad(struct making *m, const char *fmt, ...) SBX_PRINTF(2, 3);

/* "field: text" */
static bool
bad(struct making *m, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	char *colon;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	colon = strstr(text, ": ");
	*colon = '\0';
	cwcall_bad_field(m->c, text, "%s", colon + 2);
	return false;
}

/* Whether that field asks for something. */
static bool
is_said(const struct cwmsg *m, const char *name)
{
	const struct cwmsg_field *f = cwmsg_field(cwmsg_desc(m), strv_of(name));
	const struct cwval *v;
	size_t n;

	v = cwmsg_values(m, f, &n);
	if (n == 0)
		return false;
	return f->label == CWMSG_REPEATED || f->type == CWMSG_MAP ||
	       f->type == CWMSG_MSG || v->num != 0 || v->len != 0;
}

struct refused {
	const char *name, *why;
};

/* None of them may be said. */
static bool
check_refused(struct making *m, const struct cwmsg *msg, const char *path,
	      const struct refused *v, size_t n)
{
	for (size_t i = 0; msg != NULL && i < n; i++) {
		char *field;

		if (!is_said(msg, v[i].name))
			continue;
		field = xasprintf("%s.%s", path, v[i].name);
		cwsvc_unsupported(m->c, field, v[i].why);
		free(field);
		return false;
	}
	return true;
}

static bool
check_whole(struct making *m)
{
	static const struct refused spec[] = {
	    {"init_containers", "a sandbox is one container"},
	    {"network_ids", "there are no such networks"},
	    {"object_storage_access", "object storage is not supported"},
	    {"runner_ids", "there are no runners to choose from"},
	    {"instance_type", "there are no instance types"},
	    {"runtime_class", "there are no runtime classes"},
	};
	static const struct refused network[] = {
	    {"ingress", "rules are not supported"},
	    {"egress", "rules are not supported"},
	};
	const struct cwmsg *sandbox = cwmsg_msg(m->c->req, "sandbox");
	size_t n;

	m->spec = cwmsg_msg(sandbox, "spec");
	n = m->spec != NULL ? cwmsg_count(m->spec, "containers") : 0;
	if (n == 0)
		return bad(m, SPEC ".containers: is missing");
	if (n > 1)
		return bad(m, SPEC ".containers: a sandbox is one container");
	m->container = cwmsg_msg_at(m->spec, "containers", 0);
	return check_refused(m, m->spec, SPEC, spec, ARRAY_LEN(spec)) &&
	       check_refused(m, cwmsg_msg(m->spec, "network"), SPEC ".network",
			     network, ARRAY_LEN(network));
}

static bool
check_container(struct making *m)
{
	static const struct refused container[] = {
	    {"secret_stores", "there are no secret stores: say the values in "
			      "environment_variables"},
	    {"image_pull_credentials", "images are not pulled"},
	};
	static const struct refused security[] = {
	    {"run_as_user", "is not for the caller to say"},
	    {"run_as_group", "is not for the caller to say"},
	    {"privileged", "no sandbox is"},
	    {"allow_privilege_escalation", "no sandbox may"},
	    {"read_only_root_filesystem", "is not supported"},
	    {"capabilities_add", "there are none to be had"},
	    {"capabilities_drop", "is not supported"},
	    {"seccomp_profile", "is not for the caller to say"},
	};
	const char *primary = cwmsg_text(m->spec, "primary_container");

	if (primary[0] != '\0' &&
	    strcmp(primary, cwmsg_text(m->container, "name")) != 0)
		return bad(m, SPEC ".primary_container: names no container");
	return check_refused(m, m->container, CONTAINER, container,
			     ARRAY_LEN(container)) &&
	       check_refused(m, cwmsg_msg(m->container, "security_context"),
			     CONTAINER ".security_context", security,
			     ARRAY_LEN(security));
}

/* --- the program ------------------------------------------------------- */

static bool
take_command(struct making *m)
{
	struct strv command = cwmsg_view(m->container, "command");
	size_t n = cwmsg_count(m->container, "args");

	if (n >= JOBSPEC_WORDS_MAX)
		return bad(m, CONTAINER ".args: are more than %d",
			   JOBSPEC_WORDS_MAX - 1);
	if (command.len == 0 && n > 0)
		return bad(m, CONTAINER ".command: is missing, and there are "
					"args");
	if (command.len > JOBSPEC_WORD_BYTES)
		return bad(m, CONTAINER ".command: is too long");
	if (command.len == 0) {
		for (size_t i = 0; i < ARRAY_LEN(default_argv); i++)
			jobspec_push_word(&m->s.command,
					  strv_of(default_argv[i]));
		return true;
	}
	jobspec_push_word(&m->s.command, command);
	for (size_t i = 0; i < n; i++) {
		const char *word = cwmsg_text_at(m->container, "args", i);

		if (strlen(word) > JOBSPEC_WORD_BYTES)
			return bad(m, CONTAINER ".args[%zu]: is too long", i);
		jobspec_push_word(&m->s.command, strv_of(word));
	}
	return true;
}

static bool
take_variables(struct making *m)
{
	size_t n = cwmsg_count(m->container, "environment_variables");

	if (n > JOBSPEC_ENV_MAX)
		return bad(m,
			   CONTAINER ".environment_variables: are more than "
				     "%d",
			   JOBSPEC_ENV_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *key, *value, *why = NULL;

		cwmsg_pair_at(m->container, "environment_variables", i, &key,
			      &value);
		if (key[0] == '\0' || strchr(key, '=') != NULL)
			why = "a name must not be empty or contain '='";
		else if (strlen(key) > JOBSPEC_NAME_BYTES)
			why = "the name is too long";
		else if (strncmp(key, "SBX_", 4) == 0)
			why = "names that begin with SBX_ are taken";
		else if (strlen(value) > JOBSPEC_WORD_BYTES)
			why = "the value is too long";
		if (why != NULL)
			return bad(m,
				   CONTAINER ".environment_variables[%.64s]: "
					     "%s",
				   strchr(key, ':') != NULL ? "?" : key, why);
		jobspec_push(&m->s.env, strv_of(key), strv_of(value));
	}
	return true;
}

static bool
take_place(struct making *m)
{
	struct strv image = cwmsg_view(m->container, "image"),
		    dir = cwmsg_view(m->container, "working_dir");

	if (image.len > JOBSPEC_TEXT_BYTES)
		return bad(m, CONTAINER ".image: is too long");
	if (image.len > 0)
		m->s.image = xstrdup(image.p);
	if (dir.len == 0)
		return true;
	if (dir.p[0] != '/' || dir.len > JOBSPEC_PATH_BYTES)
		return bad(m,
			   CONTAINER ".working_dir: must be an absolute path");
	m->s.working_dir = xstrdup(dir.p);
	return true;
}

static bool
take_files(struct making *m)
{
	size_t n = cwmsg_count(m->container, "files"), sum = 0;

	if (n > JOBSPEC_FILES_MAX)
		return bad(m, CONTAINER ".files: are more than %d",
			   JOBSPEC_FILES_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct cwmsg *f = cwmsg_msg_at(m->container, "files", i);
		struct strv path = cwmsg_view(f, "path"),
			    content = cwmsg_view(f, "content");

		if (path.len == 0 || path.p[0] != '/' ||
		    path.len > JOBSPEC_PATH_BYTES)
			return bad(m,
				   CONTAINER ".files[%zu].path: must be an "
					     "absolute path",
				   i);
		sum += content.len;
		if (sum > JOBSPEC_FILES_BYTES)
			return bad(m, CONTAINER ".files: are more than 1 MiB "
						"together");
		if (content.p == NULL)
			content = STRV("");
		jobspec_push_file(&m->s, path, content, 0644);
	}
	return true;
}

/* --- resources --------------------------------------------------------- */

struct amount {
	uint64_t cpu_milli, memory; /* 0: not said */
};

static bool
read_amount(struct making *m, const struct cwmsg *r, const char *path,
	    struct amount *out)
{
	struct strv cpu = cwmsg_view(r, "cpu"),
		    memory = cwmsg_view(r, "memory");
	char *gpu;

	if (cpu.len > 0 && (cwquantity_milli(cpu, &out->cpu_milli) != 0 ||
			    out->cpu_milli == 0))
		return bad(m, "%s.cpu: must be a quantity like 2 or 500m",
			   path);
	if (memory.len > 0 &&
	    (cwquantity_whole(memory, &out->memory) != 0 || out->memory == 0))
		return bad(m, "%s.memory: must be a quantity like 512Mi", path);
	if (cwmsg_msg(r, "gpu") == NULL ||
	    cwmsg_int(cwmsg_msg(r, "gpu"), "count") == 0)
		return true;
	gpu = xasprintf("%s.gpu", path);
	cwsvc_unsupported(m->c, gpu, "there are none");
	free(gpu);
	return false;
}

/* There are bounds only: a request without a limit is one. */
static bool
take_resources(struct making *m)
{
	const struct cwmsg *plain = cwmsg_msg(m->container, "resources"),
			   *both =
			       cwmsg_msg(m->container, "resource_requirements");
	struct amount request = {0}, limit = {0};

	if (plain != NULL && both != NULL)
		return bad(m, CONTAINER ".resources: not together with "
					"resource_requirements");
	if (!read_amount(m, plain, CONTAINER ".resources", &limit) ||
	    !read_amount(m, cwmsg_msg(both, "requests"),
			 CONTAINER ".resource_requirements.requests",
			 &request) ||
	    !read_amount(m, cwmsg_msg(both, "limits"),
			 CONTAINER ".resource_requirements.limits", &limit))
		return false;
	if (limit.cpu_milli != 0 && request.cpu_milli > limit.cpu_milli)
		return bad(m, CONTAINER ".resource_requirements.requests.cpu: "
					"is more than the limit");
	if (limit.memory != 0 && request.memory > limit.memory)
		return bad(m,
			   CONTAINER ".resource_requirements.requests.memory: "
				     "is more than the limit");
	m->s.cpu_milli =
	    limit.cpu_milli != 0 ? limit.cpu_milli : request.cpu_milli;
	m->s.memory = limit.memory != 0 ? limit.memory : request.memory;
	return true;
}

/* --- the rest ---------------------------------------------------------- */

/* Nobody gets in but through us, unless the job shares the machine's network
 * (or nobody here knows what its launcher does). */
static bool
is_shut(const struct making *m)
{
	const struct gw_conf *conf = jobs_conf(m->c->svc->o.jobs);

	return m->s.closed || (strcmp(conf->jobs.launcher, "local") == 0 &&
			       !conf->launch.net_host);
}

static bool
take_network(struct making *m)
{
	const struct cwmsg *network = cwmsg_msg(m->spec, "network");

	m->s.closed = cwmsg_int(network, "deny_egress") != 0;
	if (cwmsg_int(network, "deny_ingress") == 0)
		return true;
	if (cwmsg_count(m->spec, "services") != 0)
		return bad(m, SPEC ".network.deny_ingress: not together with "
				   "services");
	if (!is_shut(m))
		cwsvc_unsupported(m->c, SPEC ".network.deny_ingress",
				  "sandboxes share this machine's network");
	return is_shut(m);
}

static bool
take_service(struct making *m, size_t i)
{
	const struct cwmsg *v = cwmsg_msg_at(m->spec, "services", i);
	int64_t port = cwmsg_int(v, "port"),
		protocol = cwmsg_int(v, "protocol"),
		kind = cwmsg_int(cwmsg_msg(v, "endpoint"), "kind");
	char field[64];

	if (port < 1 || port > 65535 || port == ROUTE_AGENT_PORT)
		return bad(m,
			   SPEC ".services[%zu].port: must be from 1 to "
				"65535, and not %d",
			   i, ROUTE_AGENT_PORT);
	for (size_t k = 0; k < m->s.nports; k++)
		if (m->s.ports[k] == port)
			return bad(
			    m, SPEC ".services[%zu].port: is there twice", i);
	(void)snprintf(field, sizeof(field), SPEC ".services[%zu].%s", i,
		       kind > CW_ENDPOINT_HTTPS ? "endpoint.kind" : "protocol");
	if (protocol > CW_PROTOCOL_TCP || kind > CW_ENDPOINT_HTTPS) {
		cwsvc_unsupported(m->c, field,
				  "ports are reached by HTTP and WebSocket "
				  "over TCP");
		return false;
	}
	m->s.ports[m->s.nports++] = (uint16_t)port;
	return true;
}

static bool
take_rest(struct making *m)
{
	int64_t lifetime = cwmsg_int(m->spec, "max_lifetime_seconds");
	struct strv request_id = cwmsg_view(m->c->req, "request_id");
	size_t n = cwmsg_count(m->spec, "services");

	if (lifetime < 0)
		return bad(m, SPEC ".max_lifetime_seconds: is negative");
	/* As long as a job may last; the status says how long that is. */
	m->s.timeout_s = (uint64_t)lifetime < JOBSPEC_TIMEOUT_MAX
			     ? (uint64_t)lifetime
			     : JOBSPEC_TIMEOUT_MAX;
	if (n > JOBSPEC_PORTS_MAX)
		return bad(m, SPEC ".services: are more than %d",
			   JOBSPEC_PORTS_MAX);
	for (size_t i = 0; i < n; i++)
		if (!take_service(m, i))
			return false;
	n = cwmsg_count(m->spec, "tags");
	if (n > JOBSPEC_TAGS_MAX)
		return bad(m, SPEC ".tags: are more than %d", JOBSPEC_TAGS_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *tag = cwmsg_text_at(m->spec, "tags", i);

		if (tag[0] == '\0' || strlen(tag) > JOBSPEC_TAG_BYTES)
			return bad(m,
				   SPEC ".tags[%zu]: must have 1 to %d bytes",
				   i, JOBSPEC_TAG_BYTES);
		jobspec_push_word(&m->s.tags, strv_of(tag));
	}
	if (request_id.len > JOBSPEC_TEXT_BYTES)
		return bad(m, "request_id: is longer than %d bytes",
			   JOBSPEC_TEXT_BYTES);
	if (request_id.len > 0)
		m->s.request_id = xstrdup(request_id.p);
	return true;
}

/* The spec as JSON. Contents of files are not kept; paths are. */
static void
keep_spec(struct making *m)
{
	struct strbuf b = {0};
	struct cwout w;

	cwout_begin(&w, &cwjson_codec, &cwschema_sandbox_spec, &b);
	w.skip = cwmsg_field(&cwschema_file_mount, STRV("content"));
	cwout_tree(&w, m->spec);
	cwout_end(&w);
	m->s.face = strbuf_take(&b);
}

/* --- the method -------------------------------------------------------- */

static void
failed(struct cwcall *c, int err, const char *why)
{
	switch (err) {
	case E_INVALID:
		cwcall_fail(c, CW_INVALID_ARGUMENT, CWERR_INVALID_REQUEST, "%s",
			    why);
		break;
	case E_NOTFOUND:
		cwcall_fail(c, CW_NOT_FOUND, CWERR_FSS_NOT_FOUND, "%s", why);
		break;
	case E_BUSY:
		cwcall_fail(c, CW_FAILED_PRECONDITION, CWERR_FSS_NOT_READY,
			    "%s", why);
		break;
	case E_LIMIT:
		cwcall_fail(c, CW_RESOURCE_EXHAUSTED, CWERR_CAPACITY, "%s",
			    why);
		break;
	default:
		cwcall_fail(c, CW_UNAVAILABLE, CWERR_BACKEND_UNAVAILABLE, "%s",
			    why != NULL ? why : err_text(err));
		break;
	}
}

static void
create(struct making *m)
{
	struct cwcall *c = m->c;
	struct strv name = c->who->name;
	char *ns = xstrndup(c->ns.p, c->ns.len), *why = NULL;
	char *user = xstrndup(name.p, name.len);
	struct job j;
	bool existed;
	int r;

	r = jobs_create(c->svc->o.jobs, ns, user, &m->s, &j, &existed, &why);
	if (r != 0) {
		failed(c, r, why);
	} else {
		if (!jobspec_main(&j.spec))
			cwcall_fail(c, CW_ALREADY_EXISTS, CWERR_INVALID_REQUEST,
				    "request_id: another job was made with "
				    "it");
		else
			cwsvc_answer_sandbox(c, &j);
		job_clear(&j);
	}
	free(ns);
	free(user);
	free(why);
}

void
cwcreate_sandbox(struct cwcall *c)
{
	struct making m = {.c = c, .s = {.sandbox = true}};

	if (check_whole(&m) && check_container(&m) && take_command(&m) &&
	    take_variables(&m) && take_place(&m) && take_files(&m) &&
	    take_resources(&m) && take_network(&m) && take_rest(&m) &&
	    cwvolume_take(c, m.spec, &m.s)) {
		keep_spec(&m);
		create(&m);
	}
	jobspec_clear(&m.s);
}

void
cwcreate_from_template(struct cwcall *c)
{
	cwcall_fail(c, CW_UNIMPLEMENTED, NULL, "there are no templates");
}
