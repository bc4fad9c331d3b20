/* SPDX-License-Identifier: Apache-2.0 */
/* Location, Set-Cookie, Host and Origin. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/rewrite.h"
#include "net/http1.h"

static struct rewrite
at(const char *prefix, const char *host, bool https)
{
	struct rewrite r = {strv_of(prefix), strv_of(host), https, 8000};

	return r;
}

static char *
joined(const struct rewrite_value *v)
{
	struct strbuf b = {0};
	size_t i;

	strbuf_adds(&b, "");
	for (i = 0; i < v->n; i++)
		strbuf_addv(&b, v->part[i]);
	return strbuf_take(&b);
}

/* want NULL: stays as it is. */
static void
location(struct rewrite r, const char *value, const char *want)
{
	struct rewrite_value v;
	bool changed = rewrite_location(&r, strv_of(value), &v);
	char *got;

	if (want == NULL) {
		if (changed)
			fail_msg("%s was rewritten", value);
		return;
	}
	if (!changed)
		fail_msg("%s was not rewritten", value);
	got = joined(&v);
	assert_string_equal(got, want);
	free(got);
}

static void
test_location(void **state)
{
	struct rewrite p = at("/v1/proxy/8000", "gw:8443", true);
	struct rewrite plain = at("/p", "gw", false);
	struct rewrite n = at("", "ab--8000.gw:8443", true);

	(void)state;
	location(p, "/login?next=/", "/v1/proxy/8000/login?next=/");
	location(p, "/", "/v1/proxy/8000/");
	location(p, "/v1/proxy/8000", NULL);
	location(p, "/v1/proxy/8000/x", NULL);
	location(p, "/v1/proxy/80000/x", "/v1/proxy/8000/v1/proxy/80000/x");
	location(p, "x/y", NULL);
	location(p, "?q", NULL);
	location(p, "", NULL);
	location(p, "//other/x", NULL);
	location(p, "/\\other/x", NULL);
	location(p, "https://other/x", NULL);
	location(p, "https://gw/x", NULL); /* another port */
	location(p, "mailto:x", NULL);
	location(p, "https://GW:8443/x", "/v1/proxy/8000/x");
	location(p, "http://gw:8443", "/v1/proxy/8000/");
	location(p, "https://gw:8443/v1/proxy/8000/x", "/v1/proxy/8000/x");
	location(p, "https://u@gw:8443/x", NULL);
	location(p, "http://localhost:8000/x#y", "/v1/proxy/8000/x#y");
	location(p, "http://127.0.0.1:8000?q", "/v1/proxy/8000/?q");
	location(p, "http://localhost:8001/x", NULL);
	location(plain, "https://gw/x", "https://gw/p/x");
	location(plain, "http://gw/x", "/p/x");
	location(n, "/x", NULL);
	location(n, "http://localhost:8000/x", "/x");
	location(n, "http://localhost:8000", "/");
	location(n, "http://localhost:8000//evil/x", "/evil/x");
	location(n, "http://[::1]:8000/\\evil", "\\evil");
}

static void
cookie(struct rewrite r, const char *value, const char *want)
{
	struct rewrite_value v;
	bool changed = rewrite_set_cookie(&r, strv_of(value), &v);
	char *got;

	assert_int_equal(changed, want != NULL);
	if (want == NULL)
		return;
	got = joined(&v);
	assert_string_equal(got, want);
	free(got);
}

static void
test_set_cookie(void **state)
{
	struct rewrite p = at("/v1/proxy/8000", "gw", true);
	struct rewrite n = at("", "gw", true);

	(void)state;
	cookie(p, "a=b", NULL);
	cookie(p, "a=b; Path=/", "a=b; Path=/v1/proxy/8000/");
	cookie(p, "a=b; path = /x ; Secure",
	       "a=b; path = /v1/proxy/8000/x ; Secure");
	cookie(p, "a=b; Path=/v1/proxy/8000/y", NULL);
	cookie(p, "a=b; Path=", NULL);
	cookie(p, "a=b; Path=x", NULL);
	cookie(p, "path=/; HttpOnly", NULL); /* a cookie named path */
	cookie(p, "a=b; Path=/1; Path=/2",
	       "a=b; Path=/1; Path=/v1/proxy/8000/2");
	cookie(n, "a=b; Path=/", NULL);
}

static void
test_host_and_origin(void **state)
{
	struct rewrite r = at("", "ab--8000.gw:8443", true);
	char buf[32];
	struct strv out;

	(void)state;
	out = rewrite_local_host(8000, buf);
	assert_true(strv_eq(out, STRV("localhost:8000")));
	assert_true(
	    rewrite_origin(&r, STRV("https://ab--8000.gw:8443"), buf, &out));
	assert_true(strv_eq(out, STRV("http://localhost:8000")));
	assert_false(
	    rewrite_origin(&r, STRV("http://ab--8000.gw:8443"), buf, &out));
	assert_false(rewrite_origin(&r, STRV("https://evil"), buf, &out));
	assert_false(rewrite_origin(&r, STRV("null"), buf, &out));
	assert_false(
	    rewrite_origin(&r, STRV("https://ab--8000.gw:8443/"), buf, &out));
}

static bool
navigates(const char *text)
{
	struct http_head h;
	struct http_reject rej;
	size_t scanned = 0;

	assert_int_equal(
	    http1_parse_request(text, strlen(text), &scanned, &h, &rej), 0);
	return rewrite_is_navigation(&h);
}

static void
test_navigation(void **state)
{
	(void)state;
	assert_true(navigates("GET / HTTP/1.1\r\nHost: h\r\n"
			      "Sec-Fetch-Mode: navigate\r\n\r\n"));
	assert_false(navigates("GET / HTTP/1.1\r\nHost: h\r\n"
			       "Accept: text/html\r\n"
			       "Sec-Fetch-Mode: cors\r\n\r\n"));
	assert_true(navigates("GET / HTTP/1.1\r\nHost: h\r\n"
			      "Accept: x/y\r\n"
			      "Accept: a/b, text/html;q=0.9\r\n\r\n"));
	assert_false(navigates("POST / HTTP/1.1\r\nHost: h\r\n"
			       "Content-Length: 0\r\n"
			       "Accept: text/html\r\n\r\n"));
	assert_false(
	    navigates("GET / HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_location),
	    cmocka_unit_test(test_set_cookie),
	    cmocka_unit_test(test_host_and_origin),
	    cmocka_unit_test(test_navigation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
