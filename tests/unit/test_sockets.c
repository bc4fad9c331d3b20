/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets: port 0, one for each worker, kept over reloads,
 * never lost when there are fewer workers, refused when in use. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/gwconf.h"
#include "gateway/sockets.h"

struct got {
	int fds[16];
	size_t n;
};

static void
take(int fd, void *arg)
{
	struct got *g = arg;

	assert_true(g->n < 16);
	g->fds[g->n++] = fd;
}

static struct gw_conf *
conf_of(const char *one, const char *two)
{
	struct gw_conf *c = gwconf_new();
	char *msg = NULL;

	assert_int_equal(gwconf_add_listen(c, strv_of(one), &msg), 0);
	if (two != NULL)
		assert_int_equal(gwconf_add_listen(c, strv_of(two), &msg), 0);
	return c;
}

static void
workers_share(void **state)
{
	struct gw_conf *c = conf_of("http://127.0.0.1:0", NULL);
	struct sockets *s = sockets_new(true);
	struct got a = {0}, b = {0}, all = {0};
	struct strbuf text = {0}, again = {0};
	char *msg = NULL;

	(void)state;
	assert_int_equal(sockets_open(s, c, 3, &msg), 0);
	sockets_each(s, &c->listens[0], 0, 3, take, &a);
	sockets_each(s, &c->listens[0], 1, 3, take, &b);
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 1);
	assert_int_not_equal(a.fds[0], b.fds[0]);
	/* One worker alone gets all three: nothing queued is lost. */
	sockets_each(s, &c->listens[0], 0, 1, take, &all);
	assert_int_equal(all.n, 3);
	sockets_text(s, &c->listens[0], &text);
	assert_null(strstr(text.s, ":0"));
	assert_int_equal(sockets_open(s, c, 2, &msg), 0);
	sockets_text(s, &c->listens[0], &again);
	assert_string_equal(text.s, again.s);
	strbuf_clear(&text);
	strbuf_clear(&again);
	sockets_free(s);
	gwconf_free(c);
}

static void
in_use(void **state)
{
	struct gw_conf *c = conf_of("http://127.0.0.1:0", NULL), *d;
	struct sockets *s = sockets_new(true), *t = sockets_new(true);
	struct strbuf text = {0};
	char *msg = NULL;

	(void)state;
	assert_int_equal(sockets_open(s, c, 1, &msg), 0);
	sockets_text(s, &c->listens[0], &text);
	/* SO_REUSEPORT would let a second program in. */
	d = conf_of("http://127.0.0.1:0", text.s);
	assert_int_equal(sockets_open(t, d, 1, &msg), E_BUSY);
	assert_non_null(strstr(msg, text.s));
	free(msg);
	strbuf_clear(&text);
	sockets_free(s);
	sockets_free(t);
	gwconf_free(c);
	gwconf_free(d);
}

/* Two listeners that both let the kernel choose. */
static void
twins(void **state)
{
	struct gw_conf *c =
	    conf_of("https://127.0.0.1:0", "http://127.0.0.1:0");
	struct sockets *s = sockets_new(true);
	struct strbuf a = {0}, b = {0};
	char *msg = NULL;

	(void)state;
	assert_int_equal(sockets_open(s, c, 2, &msg), 0);
	sockets_text(s, &c->listens[0], &a);
	sockets_text(s, &c->listens[1], &b);
	assert_string_not_equal(strrchr(a.s, ':'), strrchr(b.s, ':'));
	strbuf_clear(&a);
	strbuf_clear(&b);
	sockets_free(s);
	gwconf_free(c);
}

static void
reload(void **state)
{
	char dir[] = "/tmp/sbx-sockets-XXXXXX", path[64], url[80];
	struct gw_conf *c, *d;
	struct sockets *s = sockets_new(true);
	struct got before = {0}, after = {0};
	struct stat st;
	char *msg = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(url, sizeof(url), "unix:%s", path);
	c = conf_of("http://127.0.0.1:0", url);
	d = conf_of("http://127.0.0.1:0", NULL);
	assert_int_equal(sockets_open(s, c, 2, &msg), 0);
	assert_int_equal(stat(path, &st), 0);
	sockets_each(s, &c->listens[0], 0, 2, take, &before);
	assert_int_equal(sockets_open(s, d, 2, &msg), 0);
	sockets_prune(s, d);
	assert_int_not_equal(stat(path, &st), 0);
	sockets_each(s, &d->listens[0], 0, 2, take, &after);
	assert_int_equal(before.fds[0], after.fds[0]);
	sockets_free(s);
	gwconf_free(c);
	gwconf_free(d);
	(void)rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(workers_share),
	    cmocka_unit_test(in_use),
	    cmocka_unit_test(twins),
	    cmocka_unit_test(reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
