/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ReadFile and WriteFile: the agent's routes for files, with the bytes going
 * through as they come, a piece at a time. So many of a namespace run at once;
 * its others wait for their turn, and nobody else's.
 *
 * A file that cannot be written is said so when all of it has come: clients
 * that send first and listen then would not hear it before.
 */
#include "config.h"

#include "gateway/cwfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/agentcall.h"
#include "gateway/cwagent.h"
#include "gateway/cwsvc_int.h"
#include "net/buf.h"
#include "net/httpd.h"

#define AT_ONCE        32 /* of one namespace */
#define PATH_MAX_BYTES 4096

struct cwfile {
	struct cwcall *c;
	struct cwfile *next, **prevp; /* of all of them */
	bool runs;
	bool writes;
	struct cwagent find;
	struct agentcall *call;
	struct strbuf target;
	uint64_t size; /* that came, or is to go */
	uint64_t left; /* to go */
	bool replied;  /* the answer has begun */
	bool ended;    /* all came */
	bool taken;    /* the agent's answer is there: it is written */
	/* WriteFile: what to say when all came; code CW_OK: nothing yet */
	enum cwerr_code code;
	const char *reason; /* static */
	char *text;
};

/* --- failures ---------------------------------------------------------- */

static const struct {
	const char *word; /* the agent's */
	enum cwerr_code code;
	const char *reason;
} refusals[] = {
    {"not_found", CW_NOT_FOUND, CWERR_FILE_NOT_FOUND},
    {"is_directory", CW_FAILED_PRECONDITION, CWERR_FILE_IS_DIRECTORY},
    {"denied", CW_PERMISSION_DENIED, CWERR_FILE_PERMISSION},
    {"read_only", CW_PERMISSION_DENIED, CWERR_FILE_PERMISSION},
    {"too_large", CW_FAILED_PRECONDITION, CWERR_FILE_TOO_LARGE},
    {"not_a_file", CW_FAILED_PRECONDITION, CWERR_FILE_IO_FAILED},
    {"bad_path", CW_INVALID_ARGUMENT, CWERR_FILE_IO_FAILED},
    {"no_space", CW_RESOURCE_EXHAUSTED, CWERR_FILE_IO_FAILED},
    {"quota", CW_RESOURCE_EXHAUSTED, CWERR_FILE_IO_FAILED},
    {"busy", CW_UNAVAILABLE, CWERR_FILE_IO_FAILED},
    {"disk_stalls", CW_UNAVAILABLE, CWERR_FILE_IO_FAILED},
    {"internal", CW_INTERNAL, CWERR_FILE_IO_FAILED},
};

static void
fail_with(struct cwfile *f, enum cwerr_code code, const char *reason,
	  const char *text)
{
	struct cwerr e = {.code = code, .reason = reason, .message = text};
	char size[STR_U64_MAX + 1], most[STR_U64_MAX + 1];
	size_t n = 0;

	e.meta[n].key = "filepath";
	e.meta[n++].value = cwmsg_text(f->c->req, "path");
	if (reason != NULL && strcmp(reason, CWERR_FILE_TOO_LARGE) == 0) {
		(void)snprintf(size, sizeof(size), "%" PRIu64, f->size);
		(void)snprintf(most, sizeof(most), "%u", CWFILE_MAX);
		if (f->size > 0) {
			e.meta[n].key = "size_bytes";
			e.meta[n++].value = size;
		}
		e.meta[n].key = "max_size_bytes";
		e.meta[n].value = most;
	}
	cwcall_fail_with(f->c, &e);
}

/* Now, or when all of a file has come. */
static void
fail(struct cwfile *f, enum cwerr_code code, const char *reason,
     const char *text)
{
	if (f->code != CW_OK)
		return;
	if (!f->writes || f->ended) {
		fail_with(f, code, reason, text);
		return;
	}
	f->code = code;
	f->reason = reason;
	f->text = xstrdup(text);
	agentcall_free(f->call);
	f->call = NULL;
	cwcall_pause(f->c, false);
}

static void
refused_cb(struct agentcall *a, const struct agentcall_no *no, void *arg)
{
	struct cwfile *f = arg;

	(void)a;
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		if (strcmp(no->code, refusals[i].word) != 0)
			continue;
		fail(f, refusals[i].code, refusals[i].reason, no->text);
		return;
	}
	cwagent_refused(f->c, no);
}

static void
failed_cb(struct agentcall *a, int err, const char *what, void *arg)
{
	struct cwfile *f = arg;

	(void)a;
	(void)err;
	f->call = NULL;
	agentcall_free(a);
	cwagent_lost(f->c, what);
}

/* --- turns ------------------------------------------------------------- */

static void
run(struct cwfile *f, void (*ready)(const struct agentcall_to *to, void *arg))
{
	f->runs = true;
	cwagent_find(&f->find, f->c, f->c->req, ready, f);
}

static void read_ready(const struct agentcall_to *to, void *arg);
static void write_ready(const struct agentcall_to *to, void *arg);

static void
leave(struct cwfile *f)
{
	*f->prevp = f->next;
	if (f->next != NULL)
		f->next->prevp = f->prevp;
	else
		f->c->svc->last_file = f->prevp;
}

/* The first one of ns that waits, when there is room for it. */
static struct cwfile *
whose_turn(const struct cwsvc *svc, struct strv ns)
{
	struct cwfile *first = NULL;
	unsigned n = 0;

	for (struct cwfile *f = svc->files; f != NULL; f = f->next) {
		if (!strv_eq(f->c->ns, ns))
			continue;
		n += f->runs;
		if (!f->runs && first == NULL)
			first = f;
	}
	return n < AT_ONCE ? first : NULL;
}

static void
next_turn(const struct cwsvc *svc, struct strv ns)
{
	struct cwfile *f = whose_turn(svc, ns);

	if (f != NULL)
		run(f, f->writes ? write_ready : read_ready);
}

static void
closed_cb(struct cwcall *c, enum cwerr_code code, void *arg)
{
	struct cwfile *f = arg;

	(void)code;
	leave(f);
	cwagent_clear(&f->find);
	agentcall_free(f->call);
	strbuf_clear(&f->target);
	free(f->text);
	free(f);
	next_turn(c->svc, c->ns);
}

/* --- the path ---------------------------------------------------------- */

static struct cwfile *
new_file(struct cwcall *c, const struct cwcall_cbs *cbs, const char *route,
	 bool writes)
{
	struct strv path = cwmsg_view(c->req, "path");
	struct cwfile *f;

	if (path.len == 0 || path.p[0] != '/') {
		cwcall_bad_field(c, "path",
				 path.len == 0 ? "is missing"
					       : "must be absolute");
		return NULL;
	}
	if (path.len >= PATH_MAX_BYTES) {
		cwcall_bad_field(c, "path", "is too long");
		return NULL;
	}
	f = xcalloc(1, sizeof(*f));
	f->c = c;
	f->writes = writes;
	strbuf_adds(&f->target, route);
	agentcall_escape(&f->target, path);
	cwcall_set_cbs(c, cbs, f);
	return f;
}

/* Its turn comes now, or later. */
static void
begin(struct cwfile *f)
{
	struct cwsvc *svc = f->c->svc;

	if (svc->files == NULL)
		svc->last_file = &svc->files;
	f->prevp = svc->last_file;
	*f->prevp = f;
	svc->last_file = &f->next;
	next_turn(svc, f->c->ns);
}

/* --- ReadFile ---------------------------------------------------------- */

static void
read_head_cb(struct agentcall *a, const struct http_head *h, void *arg)
{
	struct cwfile *f = arg;

	(void)a;
	f->size = f->left = h->content_length;
	if (h->body != BODY_LENGTH && h->body != BODY_NONE) {
		cwagent_lost(f->c, "its answer has no length");
	} else if (f->size > CWFILE_MAX) {
		fail_with(f, CW_FAILED_PRECONDITION, CWERR_FILE_TOO_LARGE,
			  "the file is too large for ReadFile: read it with a "
			  "command");
	} else {
		f->replied = true;
		cwcall_raw_begin(f->c, "content", f->size);
	}
}

static void
read_body_cb(struct agentcall *a, struct bufq *in, bool end, void *arg)
{
	struct cwfile *f = arg;
	struct strv v;

	while (f->replied && !cwcall_over_high(f->c) &&
	       (v = bufq_front(in)).len > 0) {
		if (v.len > f->left)
			v.len = (size_t)f->left;
		cwcall_raw(f->c, v);
		f->left -= v.len;
		bufq_drain(in, v.len);
	}
	if (!end || in->len > 0 || !f->replied)
		return;
	f->replied = false;
	f->call = NULL;
	agentcall_free(a);
	cwcall_end(f->c);
}

static void
read_writable_cb(struct cwcall *c, void *arg)
{
	struct cwfile *f = arg;

	(void)c;
	if (f->call != NULL)
		agentcall_resume(f->call);
}

static void
read_ready(const struct agentcall_to *to, void *arg)
{
	static const struct agentcall_cbs cbs = {.head = read_head_cb,
						 .body = read_body_cb,
						 .refused = refused_cb,
						 .failed = failed_cb};
	struct cwfile *f = arg;
	const struct agentcall_ask ask = {
	    .method = M_GET,
	    .target = {f->target.s, f->target.len},
	    .body = BODY_NONE};

	f->call = agentcall_start(f->c->loop, to, &ask, &cbs, f);
}

void
cwfile_read(struct cwcall *c)
{
	static const struct cwcall_cbs cbs = {.writable = read_writable_cb,
					      .closed = closed_cb};
	struct cwfile *f = new_file(c, &cbs, "/v1/files/read?path=", false);

	if (f != NULL)
		begin(f);
}

/* --- WriteFile --------------------------------------------------------- */

static void
write_body_cb(struct agentcall *a, struct bufq *in, bool end, void *arg)
{
	struct cwfile *f = arg;

	bufq_drain(in, in->len);
	if (!end)
		return;
	f->call = NULL;
	agentcall_free(a);
	(void)cwcall_reply(f->c);
	cwcall_answer(f->c);
}

static void
write_head_cb(struct agentcall *a, const struct http_head *h, void *arg)
{
	(void)a;
	(void)h;
	(void)arg;
}

static void
write_drained_cb(struct agentcall *a, void *arg)
{
	(void)a;
	cwcall_pause(((struct cwfile *)arg)->c, false);
}

static void
write_ready(const struct agentcall_to *to, void *arg)
{
	static const struct agentcall_cbs cbs = {.head = write_head_cb,
						 .body = write_body_cb,
						 .drained = write_drained_cb,
						 .refused = refused_cb,
						 .failed = failed_cb};
	struct cwfile *f = arg;
	const struct agentcall_ask ask = {
	    .method = M_PUT,
	    .target = {f->target.s, f->target.len},
	    .body = BODY_CHUNKED};

	f->call = agentcall_start(f->c->loop, to, &ask, &cbs, f);
	cwcall_pause(f->c, false);
}

/* All came: what the fields after it say is known, too. */
static void
all_came(struct cwfile *f)
{
	const struct cwmsg *m = f->c->late_req;
	const char *name = cwmsg_text(m, "container");

	f->ended = true;
	if (f->code != CW_OK)
		fail_with(f, f->code, f->reason, f->text);
	else if (strcmp(cwmsg_text(m, "path"), cwmsg_text(f->c->req, "path")) !=
		     0 ||
		 strcmp(name, cwmsg_text(f->c->req, "container")) != 0)
		cwcall_bad_field(f->c, "container", "must come before content");
	else
		agentcall_end(f->call);
}

static void
raw_cb(struct cwcall *c, struct bufq *in, bool end, void *arg)
{
	struct cwfile *f = arg;

	if (f->ended || (f->call == NULL && f->code == CW_OK))
		return; /* it waits, and so does the client */
	f->size += in->len;
	if (f->size > CWFILE_MAX)
		fail(f, CW_FAILED_PRECONDITION, CWERR_FILE_TOO_LARGE,
		     "the file is too large for WriteFile: write it with a "
		     "command");
	if (f->call != NULL)
		agentcall_move(f->call, in, in->len);
	else
		bufq_drain(in, in->len);
	if (end)
		all_came(f);
	else if (f->call != NULL && agentcall_over_high(f->call))
		cwcall_pause(c, true);
}

void
cwfile_write(struct cwcall *c)
{
	static const struct cwcall_cbs cbs = {.raw = raw_cb,
					      .closed = closed_cb};
	struct cwfile *f = new_file(c, &cbs, "/v1/files/write?path=", true);

	if (f == NULL)
		return;
	cwcall_pause(c, true);
	begin(f);
}
