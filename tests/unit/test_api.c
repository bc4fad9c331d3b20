/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's router, bodies and answers, over its socket. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/api.h"
#include "gateway/apibase.h"
#include "net/addr.h"
#include "tests/unit/net_help.h"

#define ANN                                                                    \
	"X-Sbx-User: ann\r\nX-Sbx-Namespaces: ann,team\r\n"                    \
	"X-Sbx-Role: user\r\n"

struct fixture {
	struct loop *l;
	struct api *api;
	char dir[32], path[48];
	struct strbuf got;
	struct api_req *later;
	unsigned called;
};

static void
say_cb(struct api_req *r)
{
	struct fixture *f = r->arg;
	struct strbuf b = {0};
	struct strv name, value;
	size_t pos = 0;

	f->called++;
	for (size_t i = 0; i < r->nparams; i++)
		strbuf_addf(&b, "[%.*s]", STRV_ARG(r->param[i]));
	while (api_query_next(r, &pos, &name, &value))
		strbuf_addf(&b, "(%.*s=%.*s)", STRV_ARG(name), STRV_ARG(value));
	strbuf_addc(&b, '.');
	api_reply_json(r, 200, &b, "X-More: 1\r\n");
	strbuf_clear(&b);
}

static void
fixed_cb(struct api_req *r)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "fixed");
	api_reply_json(r, 200, &b, NULL);
	strbuf_clear(&b);
}

static void
got_body(struct api_req *r, const struct json *root)
{
	const char *s = json_string(json_get(root, "name"));

	api_error(r, 418, "teapot", "name is %s", s != NULL ? s : "missing");
}

static void
body_cb(struct api_req *r)
{
	api_body_json(r, 64, got_body);
}

static void
later_cb(struct api_req *r)
{
	((struct fixture *)r->arg)->later = r;
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	char *msg = NULL;

	f->l = loop_new();
	f->api = api_new(f->l);
	apibase_add(f->api);
	assert_int_equal(api_route(f->api, "GET", "/api/t/:ns/:id", say_cb, f),
			 0);
	assert_int_equal(api_route(f->api, "GET", "/api/t/:ns/x", fixed_cb, f),
			 0);
	assert_int_equal(api_route(f->api, "GET", "/api/t/:ns/x", fixed_cb, f),
			 E_EXISTS);
	assert_int_equal(api_route(f->api, "POST", "/api/t/:ns", body_cb, f),
			 0);
	assert_int_equal(api_route(f->api, "GET", "/api/later", later_cb, f),
			 0);
	(void)strcpy(f->dir, "/tmp/sbx-api-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/api.sock", f->dir);
	assert_int_equal(api_listen(f->api, f->path, geteuid(), &msg), 0);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	api_free(f->api);
	loop_free(f->l);
	assert_int_equal(access(f->path, F_OK), -1);
	(void)rmdir(f->dir);
	strbuf_clear(&f->got);
	free(f);
	return 0;
}

static int
dial(struct fixture *f)
{
	struct addr a;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(addr_unix(&a, f->path), 0);
	assert_int_equal(connect(fd, &a.u.sa, a.len), 0);
	return fd;
}

/* One request on a connection of its own; what came is in f->got. */
static void
ask(struct fixture *f, const char *start, const char *fields, const char *body)
{
	struct strbuf b = {0};
	int fd = dial(f);

	strbuf_addf(&b, "%s HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n%s",
		    start, fields);
	if (body != NULL)
		strbuf_addf(&b, "Content-Length: %zu\r\n", strlen(body));
	strbuf_addf(&b, "\r\n%s", body != NULL ? body : "");
	raw_write(f->l, fd, b.s, b.len);
	strbuf_clear(&b);
	strbuf_reset(&f->got);
	assert_int_equal(raw_read_end(f->l, fd, &f->got), 0);
	(void)close(fd);
}

static bool
has(struct fixture *f, const char *s)
{
	return strstr(f->got.s, s) != NULL;
}

static void
expect(struct fixture *f, const char *s)
{
	if (!has(f, s))
		fail_msg("no \"%s\" in:\n%s", s, f->got.s);
}

static void
test_whoami(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET /api/whoami-v2", ANN, NULL);
	expect(f, "HTTP/1.1 200 ");
	expect(f, "{\"type\":\"user\",\"id\":\"ann\",\"name\":\"ann\"");
	expect(f, "\"orgs\":[{\"type\":\"org\",\"id\":\"team\","
		  "\"name\":\"team\"");
	ask(f, "GET /api/whoami-v2", "", NULL);
	expect(f, "HTTP/1.1 401 ");
	ask(f, "GET /api/agent-harnesses", "", NULL);
	expect(f, "\r\n\r\n{\"standardEnvVars\":[],\"harnesses\":{}}\n");
}

static void
test_route(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET /api/t/a%20b/%2Fc?x=1&&stage=A&stage=B%3D+%26&y", ANN,
	    NULL);
	expect(f, "[a b][/c](x=1)(stage=A)(stage=B= &)(y=).");
	expect(f, "X-More: 1\r\n");
	expect(f, "Cache-Control: no-store\r\n");
	ask(f, "GET /api/t/a/x", ANN, NULL);
	expect(f, "fixed");
	ask(f, "HEAD /api/t/a/x", ANN, NULL);
	expect(f, "HTTP/1.1 200 ");
	assert_false(has(f, "fixed"));
	f->called = 0;
	ask(f, "GET /api/t/a/b", "", NULL);
	expect(f, "HTTP/1.1 401 ");
	ask(f, "GET /api/t/a/b", "X-Sbx-User: ann\r\n", NULL);
	expect(f, "HTTP/1.1 400 ");
	assert_int_equal(f->called, 0);
}

static void
test_no_route(void **state)
{
	static const char *const none[] = {
	    "/api/t/a/b/c", "/api/t//b", "/api/t/a/b/", "/api",
	    "/api/T/a/b",   "/",         "/api/t/",
	};
	static const char *const bad[] = {"/api/t/a%/b", "/api/t/a/%0",
					  "/api/t/a/%00", "/api/t/%zz/b"};
	struct fixture *f = *state;
	char line[64];

	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		(void)snprintf(line, sizeof(line), "GET %s", none[i]);
		ask(f, line, ANN, NULL);
		expect(f, "HTTP/1.1 404 ");
		expect(f, "\"code\":\"not_found\"");
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(line, sizeof(line), "GET %s", bad[i]);
		ask(f, line, ANN, NULL);
		expect(f, "HTTP/1.1 400 ");
	}
	ask(f, "DELETE /api/t/a/x", ANN, NULL);
	expect(f, "HTTP/1.1 405 ");
	expect(f, "Allow: GET, GET\r\n");
}

static void
test_body(void **state)
{
	static const char long_one[] =
	    "{\"name\":\"0123456789012345678901234567890123456789"
	    "012345678901234567890\"}";
	struct fixture *f = *state;

	ask(f, "POST /api/t/a", ANN, "{\"name\":\"b\\nc\"}");
	expect(f, "HTTP/1.1 418 ");
	expect(f, "{\"error\":\"name is b\\nc\",\"code\":\"teapot\"}");
	expect(f, "X-Error-Message: name is b?c\r\n");
	ask(f, "POST /api/t/a", ANN, NULL);
	expect(f, "name is missing");
	ask(f, "POST /api/t/a", ANN, "{\"name\":");
	expect(f, "HTTP/1.1 400 ");
	expect(f, "not JSON");
	ask(f, "POST /api/t/a", ANN, "[1]");
	expect(f, "must be a JSON object");
	ask(f, "POST /api/t/a", ANN, long_one);
	expect(f, "HTTP/1.1 413 ");
	expect(f, "\"code\":\"too_large\"");
}

static bool
has_later(void *arg)
{
	return ((struct fixture *)arg)->later != NULL;
}

/* An answer that comes later, and one that never does. */
static void
test_later(void **state)
{
	static const char rq[] =
	    "GET /api/later HTTP/1.1\r\nHost: a\r\n" ANN "\r\n";
	struct fixture *f = *state;
	struct strbuf b = {0};
	char got[12];
	int fd = dial(f);

	raw_write(f->l, fd, rq, sizeof(rq) - 1);
	help_wait(f->l, has_later, f);
	strbuf_adds(&b, "{}");
	api_reply_json(f->later, 200, &b, NULL);
	strbuf_clear(&b);
	raw_read(f->l, fd, got, sizeof(got));
	assert_memory_equal(got, "HTTP/1.1 200", 12);
	f->later = NULL;
	raw_write(f->l, fd, rq, sizeof(rq) - 1);
	help_wait(f->l, has_later, f);
	(void)close(fd); /* teardown ends it */
}

static void
test_socket(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	char *msg = NULL;

	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_not_equal(
	    api_listen(f->api,
		       "/tmp/0123456789012345678901234567890123456789012345678"
		       "901234567890123456789012345678901234567890123456789012",
		       geteuid(), &msg),
	    0);
	assert_non_null(msg);
	free(msg);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_whoami, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_route, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_no_route, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_body, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_later, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_socket, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
