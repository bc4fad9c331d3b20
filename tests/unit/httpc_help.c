/* SPDX-License-Identifier: Apache-2.0 */
/* The client and its server end of the httpc tests; see httpc_help.h. */
#include "config.h"

#include "tests/unit/httpc_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/buf.h"
#include "net/stream.h"
#include "tests/unit/fault_io.h"

static void
head_cb(struct httpc *c, const struct http_head *h, bool interim, void *arg)
{
	struct cli *e = arg;

	if (interim) {
		e->interims++;
		return;
	}
	e->heads++;
	e->status = h->status;
	if (h->status == 101 && e->take) {
		e->up = httpc_upgrade(c);
		e->c = NULL;
	}
}

static void
body_cb(struct httpc *c, struct bufq *in, bool end, void *arg)
{
	struct cli *e = arg;
	struct strv v;

	e->in = in;
	while (!e->hold && (v = bufq_front(in)).len > 0) {
		strbuf_addv(&e->body, v);
		bufq_drain(in, v.len);
	}
	e->ends += end;
	if (!end || e->hold || !e->release)
		return;
	httpc_release(c);
	e->c = NULL;
	if (e->again) {
		e->c = httpc_pool_get(e->pool, STRV("k"));
		assert_ptr_equal(e->c, c);
		e->again = false;
		cli_send_get(e);
	}
}

static void
drained_cb(struct httpc *c, void *arg)
{
	(void)c;
	((struct cli *)arg)->drained++;
}

static void
failed_cb(struct httpc *c, int err, bool begun, const char *what, void *arg)
{
	struct cli *e = arg;

	assert_ptr_equal(c, e->c);
	e->c = NULL;
	e->failed++;
	e->err = err;
	e->begun = begun;
	e->what = what;
	assert_non_null(what);
}

const struct httpc_cbs cli_cbs = {.head = head_cb,
				  .body = body_cb,
				  .drained = drained_cb,
				  .failed = failed_cb};

/* A fresh connection under key; the server's end in *fd. */
struct httpc *
cli_connect(struct cli *e, const char *key, int *fd)
{
	struct stream *st;
	int fds[2];

	if (e->tcp)
		help_tcp_pair(fds);
	else
		help_pair(fds);
	st = stream_take_fd(e->l, fds[1], NULL, NULL);
	if (help_fault_seed != 0)
		fault_put_mix(st, help_fault_seed++);
	*fd = fds[0];
	return httpc_take_stream(e->l, e->pool, strv_of(key), st);
}

void
cli_fresh(struct cli *e)
{
	if (e->fd != -1)
		(void)close(e->fd);
	httpc_close(e->c);
	e->c = cli_connect(e, "k", &e->fd);
	e->heads = e->ends = e->failed = e->interims = e->err = 0;
	e->begun = false;
	e->in = NULL;
	strbuf_reset(&e->body);
}

static int
cli_make(void **state, bool tcp)
{
	struct cli *e = calloc(1, sizeof(*e));

	e->l = loop_new();
	e->tcp = tcp;
	e->fd = -1;
	e->o = (struct httpc_pool_options){10000, 8, 4};
	e->pool = httpc_pool_new(e->l, &e->o);
	e->release = true;
	cli_fresh(e);
	*state = e;
	return 0;
}

int
cli_setup(void **state)
{
	return cli_make(state, false);
}

int
cli_setup_tcp(void **state)
{
	return cli_make(state, true);
}

int
cli_teardown(void **state)
{
	struct cli *e = *state;

	httpc_close(e->c);
	stream_close(e->up);
	httpc_pool_free(e->pool);
	(void)close(e->fd);
	strbuf_clear(&e->body);
	loop_free(e->l);
	free(e);
	return 0;
}

void
cli_send_head(struct cli *e, const char *method, enum http_method id,
	      enum http_body kind, uint64_t n, const char *upgrade)
{
	struct http_writer *w;

	w = httpc_begin(e->c, &cli_cbs, e, strv_of(method), id, STRV("/x"),
			kind, n, 100);
	http1_put(w, STRV("Host"), STRV("h"));
	assert_int_equal(httpc_end_head(e->c, strv_of(upgrade)), 0);
}

void
cli_send_get(struct cli *e)
{
	cli_send_head(e, "GET", M_GET, BODY_NONE, 0, NULL);
	httpc_end(e->c);
}

void
cli_say(struct cli *e, const char *text)
{
	raw_write(e->l, e->fd, text, strlen(text));
}

/* The server sees exactly this. */
void
cli_hears(struct cli *e, const char *text)
{
	size_t n = strlen(text);
	char *p = malloc(n);

	raw_read(e->l, e->fd, p, n);
	assert_memory_equal(p, text, n);
	free(p);
}

bool
cli_has_ended(void *arg)
{
	return ((struct cli *)arg)->ends > 0;
}

bool
cli_has_failed(void *arg)
{
	return ((struct cli *)arg)->failed > 0;
}

bool
cli_has_head(void *arg)
{
	return ((struct cli *)arg)->heads > 0;
}

void
cli_expect(struct cli *e, unsigned status, const char *body)
{
	help_wait(e->l, cli_has_ended, e);
	assert_int_equal(e->status, status);
	assert_int_equal(e->body.len, strlen(body));
	if (e->body.len > 0)
		assert_memory_equal(e->body.s, body, e->body.len);
	assert_int_equal(e->ends, 1);
	assert_int_equal(e->failed, 0);
	e->ends = e->heads = 0;
	strbuf_reset(&e->body);
}
