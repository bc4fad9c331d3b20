/* SPDX-License-Identifier: Apache-2.0 */
/* Every error has a text of its own; every errno has an error. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/err.h"

static void
test_texts(void **state)
{
	(void)state;
	for (int e = E_OK; e >= E_UNSUPPORTED; e--) {
		const char *t = err_text(e);

		assert_non_null(t);
		assert_string_not_equal(t, "unknown error");
		for (int o = E_OK; o > e; o--)
			assert_string_not_equal(t, err_text(o));
	}
	assert_string_equal(err_text(1), "unknown error");
	assert_string_equal(err_text(-1000), "unknown error");
}

static void
test_errno(void **state)
{
	(void)state;
	assert_int_equal(err_from_errno(EAGAIN), E_AGAIN);
	assert_int_equal(err_from_errno(ECONNREFUSED), E_REFUSED);
	assert_int_equal(err_from_errno(ECONNRESET), E_PEER);
	assert_int_equal(err_from_errno(EPIPE), E_PEER);
	assert_int_equal(err_from_errno(ENOENT), E_NOTFOUND);
	assert_int_equal(err_from_errno(EACCES), E_DENIED);
	assert_int_equal(err_from_errno(EMFILE), E_FULL);
	assert_int_equal(err_from_errno(EADDRINUSE), E_BUSY);
	assert_int_equal(err_from_errno(EIO), E_SYS);
	/* A failure never turns into success, whatever errno says. */
	for (int e = 0; e < 300; e++)
		assert_true(err_from_errno(e) < 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_texts),
	    cmocka_unit_test(test_errno),
	};

	return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
