/* SPDX-License-Identifier: Apache-2.0 */
/* Ticket keys: rotation keeps the older ones behind, text and back. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "gateway/tlskeys.h"

static void
rotation(void **state)
{
	struct tls_ticket_keys k = {0};
	struct tls_ticket_key first, second;

	(void)state;
	tlskeys_rotate(&k);
	assert_int_equal(k.n, 1);
	first = k.k[0];
	tlskeys_rotate(&k);
	second = k.k[0];
	assert_memory_equal(&k.k[1], &first, sizeof(first));
	assert_memory_not_equal(&k.k[0], &first, sizeof(first));
	tlskeys_rotate(&k);
	tlskeys_rotate(&k);
	assert_int_equal(k.n, TLS_TICKET_KEYS);
	assert_memory_equal(&k.k[2], &second, sizeof(second));
}

static void
text(void **state)
{
	struct tls_ticket_keys k = {0}, got = {0};
	struct strbuf b = {0};
	struct strv v;

	(void)state;
	tlskeys_rotate(&k);
	tlskeys_rotate(&k);
	tlskeys_add(&k, &b);
	v = (struct strv){b.s + 1, b.len - 1};
	assert_int_equal(tlskeys_parse(v, &got), 0);
	assert_memory_equal(&k, &got, sizeof(k));
	v.len--;
	assert_int_equal(tlskeys_parse(v, &got), E_INVALID);
	strbuf_reset(&b);
	tlskeys_add(&k, &b);
	tlskeys_add(&k, &b);
	assert_int_equal(tlskeys_parse((struct strv){b.s + 1, b.len - 1}, &got),
			 E_INVALID);
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rotation),
	    cmocka_unit_test(text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
