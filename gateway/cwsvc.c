/* SPDX-License-Identifier: Apache-2.0 */
/* The table of methods, and those that need no file of their own. */
#include "config.h"

#include "gateway/cwsvc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/cwexec.h"
#include "gateway/cwfile.h"
#include "gateway/cwlogs.h"
#include "gateway/cwschema.h"
#include "gateway/cwsnap.h"
#include "gateway/cwsvc_int.h"

/* Of a list. */
#define PAGE_DEFAULT 100
#define PAGE_MAX     1000

#define SMALL   65536
#define COMMAND (1U << 20) /* a command with its environment */
#define LARGE   (4U << 20)

/* --- what many need ---------------------------------------------------- */

void
cwsvc_not_found(struct cwcall *c, const char *id)
{
	cwcall_fail(c, CW_NOT_FOUND, CWERR_SANDBOX_NOT_FOUND,
		    "sandbox \"%.64s\" was not found", id);
}

void
cwsvc_store_failed(struct cwcall *c, int err)
{
	cwcall_fail(c, CW_UNAVAILABLE, CWERR_BACKEND_UNAVAILABLE,
		    "sandboxes cannot be read or written now: %s",
		    err_text(err));
}

int
cwsvc_find(struct cwcall *c, const char *id, struct job *out)
{
	int r;

	if (id[0] == '\0') {
		cwcall_bad_field(c, "sandbox_id", "is missing");
		return E_INVALID;
	}
	r = jobs_get(c->svc->o.jobs, c->ns, strv_of(id), out);
	if (r == 0 && !jobspec_main(&out->spec)) { /* another job */
		job_clear(out);
		r = E_NOTFOUND;
	}
	if (r == E_NOTFOUND)
		cwsvc_not_found(c, id);
	else if (r != 0)
		cwsvc_store_failed(c, r);
	return r;
}

bool
cwsvc_is_there(struct cwcall *c, const char *id)
{
	struct job j;
	bool ours;

	if (jobs_get(c->svc->o.jobs, c->ns, strv_of(id), &j) != 0)
		return false;
	ours = jobspec_main(&j.spec);
	job_clear(&j);
	return ours;
}

bool
cwsvc_page(struct cwcall *c, int64_t *size, uint64_t *before)
{
	struct strv token = cwmsg_view(c->req, "page_token");
	int64_t n = cwmsg_int(c->req, "page_size");

	if (n < 0) {
		cwcall_bad_field(c, "page_size", "is negative");
		return false;
	}
	*size = n == 0 ? PAGE_DEFAULT : n < PAGE_MAX ? n : PAGE_MAX;
	*before = 0;
	if (token.len == 0 ||
	    (strv_parse_u64(token, INT64_MAX, true, before) == 0 &&
	     *before != 0))
		return true;
	cwcall_bad_field(c, "page_token", "is not one of ours");
	return false;
}

void
cwsvc_next_page(struct cwout *w, bool more, uint64_t last)
{
	struct strv token = STRV_NULL;
	char text[STR_U64_MAX];

	if (more)
		token = (struct strv){text, str_put_u64(text, last)};
	cwout_text(w, "next_page_token", token);
}

void
cwsvc_unsupported(struct cwcall *c, const char *field, const char *why)
{
	char *text = xasprintf("%s: %s", field, why);
	struct cwerr e = {.code = CW_UNIMPLEMENTED,
			  .message = text,
			  .reason = CWERR_INVALID_REQUEST,
			  .field = strv_of(field)};

	cwcall_fail_with(c, &e);
	free(text);
}

void
cwsvc_answer_sandbox(struct cwcall *c, const struct job *j)
{
	cwbox_add(cwcall_reply(c), j, jobs_conf(c->svc->o.jobs),
		  c->who->origin);
	cwcall_answer(c);
}

/* --- methods ----------------------------------------------------------- */

static const struct cwcall_method methods[] = {
    {.name = "CreateSandbox",
     .in = &cwschema_create_sandbox_request,
     .out = &cwschema_sandbox,
     .changes = true,
     .max = LARGE,
     .fn = cwcreate_sandbox},
    {.name = "CreateSandboxFromTemplate",
     .in = &cwschema_create_sandbox_from_template_request,
     .out = &cwschema_sandbox,
     .changes = true,
     .max = LARGE,
     .fn = cwcreate_from_template},
    {.name = "GetSandbox",
     .in = &cwschema_get_sandbox_request,
     .out = &cwschema_sandbox,
     .max = SMALL,
     .fn = cwlife_get},
    {.name = "ListSandboxes",
     .in = &cwschema_list_sandboxes_request,
     .out = &cwschema_list_sandboxes_response,
     .max = SMALL,
     .fn = cwlife_list},
    {.name = "DeleteSandbox",
     .in = &cwschema_delete_sandbox_request,
     .out = &cwschema_delete_sandbox_response,
     .changes = true,
     .max = SMALL,
     .fn = cwlife_delete},
    {.name = "PurgeSandboxes",
     .in = &cwschema_purge_sandboxes_request,
     .out = &cwschema_purge_sandboxes_response,
     .changes = true,
     .max = SMALL,
     .fn = cwlife_purge},
    {.name = "CreateFileSystemSnapshot",
     .in = &cwschema_create_file_system_snapshot_request,
     .out = &cwschema_file_system_snapshot,
     .changes = true,
     .max = SMALL,
     .fn = cwsnap_create},
    {.name = "GetFileSystemSnapshot",
     .in = &cwschema_get_file_system_snapshot_request,
     .out = &cwschema_file_system_snapshot,
     .max = SMALL,
     .fn = cwsnap_get},
    {.name = "ListFileSystemSnapshots",
     .in = &cwschema_list_file_system_snapshots_request,
     .out = &cwschema_list_file_system_snapshots_response,
     .max = SMALL,
     .fn = cwsnap_list},
    {.name = "DeleteFileSystemSnapshot",
     .in = &cwschema_delete_file_system_snapshot_request,
     .out = &cwschema_file_system_snapshot,
     .changes = true,
     .max = SMALL,
     .fn = cwsnap_delete},
    {.name = "Exec",
     .in = &cwschema_exec_request,
     .out = &cwschema_exec_response,
     .changes = true,
     .max = COMMAND,
     .fn = cwexec_unary},
    {.name = "StreamExec",
     .in = &cwschema_exec_stream_request,
     .out = &cwschema_exec_stream_response,
     .client_streams = true,
     .server_streams = true,
     .changes = true,
     .max = COMMAND,
     .fn = cwexec_stream},
    {.name = "StreamLogs",
     .in = &cwschema_stream_logs_request,
     .out = &cwschema_log_entry,
     .server_streams = true,
     .max = SMALL,
     .fn = cwlogs_stream},
    {.name = "ReadFile",
     .in = &cwschema_read_file_request,
     .out = &cwschema_read_file_response,
     .max = SMALL,
     .fn = cwfile_read},
    {.name = "WriteFile",
     .in = &cwschema_write_file_request,
     .out = &cwschema_write_file_response,
     .changes = true,
     .max = SMALL,
     .raw = "content",
     .fn = cwfile_write},
};

const struct cwcall_method *
cwsvc_method(struct strv name)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strv_eq(name, strv_of(methods[i].name)))
			return &methods[i];
	return NULL;
}

/* --- life -------------------------------------------------------------- */

struct cwsvc *
cwsvc_new(const struct cwsvc_options *o)
{
	struct cwsvc *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	return s;
}

void
cwsvc_drain(struct cwsvc *s)
{
	s->draining = true;
	/* None is closed, so leaves the list, before the batch is over. */
	for (struct cwcall *c = s->calls; c != NULL; c = c->next)
		cwcall_fail(c, CW_UNAVAILABLE, CWERR_BACKEND_UNAVAILABLE,
			    "the gateway is ending");
}

void
cwsvc_free(struct cwsvc *s)
{
	if (s == NULL)
		return;
	assert(s->calls == NULL && s->held == 0);
	free(s);
}
