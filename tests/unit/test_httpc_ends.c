/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/httpc: servers that leave, deadlines, and the pool. Everything runs
 * twice, as in test_httpc.c.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/httpc.h"
#include "net/stream.h"
#include "tests/unit/httpc_help.h"

#define BIG      (10 * 1024 * 1024)
#define SHORT_MS 40

/* --- servers that leave ------------------------------------------------ */

static void
check_cut(struct cli *e, const char *text, bool begun, const char *body)
{
	cli_fresh(e);
	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	if (text[0] != '\0')
		cli_say(e, text);
	(void)shutdown(e->fd, SHUT_WR);
	help_wait(e->l, cli_has_failed, e);
	assert_int_equal(e->err, E_EOF);
	assert_int_equal(e->begun, begun);
	assert_int_equal(e->body.len, strlen(body));
	assert_int_equal(e->ends, 0);
}

static void
test_cut_short(void **state)
{
	struct cli *e = *state;

	check_cut(e, "", false, "");
	check_cut(e, "HTTP/1.1 200 OK\r\nCon", true, "");
	check_cut(e, "HTTP/1.1 100 Continue\r\n\r\n", true, "");
	check_cut(e, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfive!", true,
		  "five!");
	check_cut(e,
		  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "2\r\nab\r\n",
		  true, "ab");
}

static void
server_reset(struct cli *e)
{
	struct linger now = {.l_onoff = 1};

	(void)setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	(void)close(e->fd);
	e->fd = -1;
}

static void
test_reset(void **state)
{
	struct cli *e = *state;

	cli_send_get(e);
	server_reset(e);
	help_wait(e->l, cli_has_failed, e);
	/* A write may have met the reset first; reading then finds an end. */
	assert_true(e->err == E_PEER || help_fault_seed != 0);
	assert_false(e->begun);
	cli_fresh(e);
	cli_send_get(e);
	cli_say(e, "HTTP/1.1 200 OK\r\n\r\npart");
	help_wait(e->l, cli_has_head, e);
	help_settle(e->l);
	server_reset(e);
	help_wait(e->l, cli_has_failed, e);
	assert_int_equal(e->err, E_PEER); /* until close, but not an end */
	assert_true(e->begun);
	assert_int_equal(e->body.len, 4);
}

static bool
ended_or_failed(void *arg)
{
	return cli_has_ended(arg) || cli_has_failed(arg);
}

/* The server answers without reading, and goes: its answer counts. */
static void
test_last_words(void **state)
{
	struct cli *e = *state;
	char *p = calloc(1, BIG);

	cli_send_head(e, "POST", M_POST, BODY_LENGTH, BIG, NULL);
	cli_say(e, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
	(void)close(e->fd);
	e->fd = -1;
	httpc_write(e->c, p, BIG);
	httpc_flush(e->c);
	if (help_fault_seed != 0) {
		/* An EAGAIN from nowhere may hide the last words. */
		help_wait(e->l, ended_or_failed, e);
		assert_true(e->ends == 1 || e->err == E_PEER);
	} else {
		cli_expect(e, 413, "no");
	}
	assert_int_equal(httpc_pool_count(e->pool), 0);
	free(p);
}

/* What waits in front of a slow owner is delivered before the news. */
static void
check_cut_while_held(struct cli *e, size_t n)
{
	char *p = calloc(1, n);

	cli_fresh(e);
	e->hold = true;
	cli_send_get(e);
	cli_say(e, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
	raw_write(e->l, e->fd, p, n);
	(void)shutdown(e->fd, SHUT_WR);
	help_wait(e->l, cli_has_head, e);
	help_pass(e->l, 20);
	assert_int_equal(e->failed, 0);
	assert_true(e->in->len <= 65536);
	e->hold = false;
	httpc_body_resume(e->c);
	help_wait(e->l, cli_has_failed, e);
	assert_int_equal(e->body.len, n);
	assert_int_equal(e->err, E_EOF);
	free(p);
}

static void
test_cut_while_held(void **state)
{
	struct cli *e = *state;

	check_cut_while_held(e, 1000);   /* its end is seen at once */
	check_cut_while_held(e, 150000); /* its end is behind full queues */
}

/* --- deadlines --------------------------------------------------------- */

static void
test_head_deadline(void **state)
{
	struct cli *e = *state;

	cli_send_get(e);
	httpc_set_head_ms(e->c, SHORT_MS);
	cli_say(e, "HTTP/1.1 102 Processing\r\n\r\n");
	help_wait(e->l, cli_has_failed, e);
	assert_int_equal(e->err, E_TIMEOUT);
	assert_int_equal(e->interims, 1);
}

static void
test_body_deadline(void **state)
{
	struct cli *e = *state;

	cli_send_get(e);
	httpc_set_head_ms(e->c, 2 * SHORT_MS);
	httpc_set_body_ms(e->c, SHORT_MS);
	cli_say(e, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
	help_wait(e->l, cli_has_failed, e);
	assert_int_equal(e->err, E_TIMEOUT);
	assert_int_equal(e->heads, 1);
}

static void
test_body_deadline_moves(void **state)
{
	struct cli *e = *state;
	int i;

	cli_send_get(e);
	httpc_set_body_ms(e->c, 20 * SHORT_MS);
	cli_say(e, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
	for (i = 0; i < 10; i++) {
		help_pass(e->l, 4 * SHORT_MS);
		cli_say(e, "x");
	}
	cli_expect(e, 200, "xxxxxxxxxx");
}

/* --- pool -------------------------------------------------------------- */

/* An idle connection under key; its server end. */
static int
pool_add(struct cli *e, const char *key)
{
	int fd, old = e->fd;

	e->c = cli_connect(e, key, &fd);
	e->fd = fd;
	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	cli_say(e, OK_TEXT);
	cli_expect(e, 200, "ok");
	e->fd = old;
	return fd;
}

static void
test_pool_lifo(void **state)
{
	struct cli *e = *state;
	struct httpc *a, *b;
	int fds[3], i;

	httpc_close(e->c);
	for (i = 0; i < 3; i++)
		fds[i] = pool_add(e, i < 2 ? "a" : "b");
	assert_int_equal(httpc_pool_count(e->pool), 3);
	b = httpc_pool_get(e->pool, STRV("a"));
	a = httpc_pool_get(e->pool, STRV("a"));
	assert_true(a != NULL && b != NULL && a != b);
	assert_null(httpc_pool_get(e->pool, STRV("a")));
	/* The one that was last given back: its peer is fds[1]. */
	(void)close(fds[1]);
	fds[1] = -1;
	e->c = b;
	cli_send_get(e);
	help_wait(e->l, cli_has_failed, e);
	assert_false(e->begun);
	e->failed = 0;
	httpc_close(a);
	(void)close(fds[0]);
	(void)close(fds[2]);
}

static bool
pool_empty(void *arg)
{
	return httpc_pool_count(((struct cli *)arg)->pool) == 0;
}

static void
test_pool_drops_the_dead(void **state)
{
	struct cli *e = *state;
	int a, b, c;

	httpc_close(e->c);
	a = pool_add(e, "a");
	b = pool_add(e, "b");
	c = pool_add(e, "c");
	(void)shutdown(a, SHUT_WR);
	raw_write(e->l, b, "HTTP/1.1 200 Unasked\r\n\r\n", 24);
	(void)close(c);
	help_wait(e->l, pool_empty, e);
	(void)close(a);
	(void)close(b);
}

static void
test_pool_limits(void **state)
{
	struct cli *e = *state;
	char key[2] = "a";
	int fds[16], i;

	httpc_close(e->c);
	for (i = 0; i < 6; i++)
		fds[i] = pool_add(e, "k");
	assert_int_equal(httpc_pool_count(e->pool), 4);
	for (i = 6; i < 16; i++) {
		key[0] = (char)('A' + i);
		fds[i] = pool_add(e, key);
	}
	assert_int_equal(httpc_pool_count(e->pool), 8);
	assert_null(httpc_pool_get(e->pool, STRV("k")));
	for (i = 0; i < 16; i++)
		(void)close(fds[i]);
}

static void
test_pool_flush(void **state)
{
	struct cli *e = *state;
	int fds[3];

	httpc_close(e->c);
	fds[0] = pool_add(e, "sb/1/80");
	fds[1] = pool_add(e, "sb/1/81");
	fds[2] = pool_add(e, "sb/10/80");
	httpc_pool_flush(e->pool, STRV("sb/1/"));
	assert_int_equal(httpc_pool_count(e->pool), 1);
	assert_null(httpc_pool_get(e->pool, STRV("sb/1/80")));
	(void)close(fds[0]);
	(void)close(fds[1]);
	(void)close(fds[2]);
}

static void
test_pool_idle(void **state)
{
	struct cli *e = *state;
	uint64_t began = loop_clock_us();
	int a, b;

	httpc_close(e->c);
	httpc_pool_free(e->pool);
	e->o.idle_ms = SHORT_MS;
	e->pool = httpc_pool_new(e->l, &e->o);
	a = pool_add(e, "a");
	help_pass(e->l, SHORT_MS / 2);
	b = pool_add(e, "b");
	help_wait(e->l, pool_empty, e);
	assert_true(loop_clock_us() - began >= (SHORT_MS - 10) * 1000);
	(void)close(a);
	(void)close(b);
}

#define T(f)   cmocka_unit_test_setup_teardown(f, cli_setup, cli_teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, cli_setup_tcp, cli_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TCP(test_cut_short),
	    TCP(test_reset),
	    T(test_last_words),
	    T(test_cut_while_held),
	    T(test_head_deadline),
	    T(test_body_deadline),
	    T(test_body_deadline_moves),
	    T(test_pool_lifo),
	    TCP(test_pool_drops_the_dead),
	    T(test_pool_limits),
	    T(test_pool_flush),
	    T(test_pool_idle),
	};
	int failed;

	failed = cmocka_run_group_tests_name("httpc ends", tests, NULL, NULL);
	help_fault_seed = help_seed();
	failed += cmocka_run_group_tests_name("httpc ends, faulty descriptor",
					      tests, NULL, NULL);
	return failed;
}
