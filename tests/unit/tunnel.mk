# SPDX-License-Identifier: Apache-2.0

check_PROGRAMS += tests/unit/test_backoff
TESTS += tests/unit/test_backoff
tests_unit_test_backoff_SOURCES = tests/unit/test_backoff.c
tests_unit_test_backoff_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_backoff_LDADD = $(LIBTUNNEL) $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_farsock
TESTS += tests/unit/test_farsock
tests_unit_test_farsock_SOURCES = tests/unit/test_farsock.c
tests_unit_test_farsock_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_farsock_LDADD = $(LIBTUNNEL) $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_hostkey
TESTS += tests/unit/test_hostkey
tests_unit_test_hostkey_SOURCES = tests/unit/test_hostkey.c
tests_unit_test_hostkey_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_hostkey_LDADD = $(LIBTUNNEL) $(LIBBASE) $(OPENSSL_LIBS) \
	$(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_options
TESTS += tests/unit/test_options
tests_unit_test_options_SOURCES = tests/unit/test_options.c
tests_unit_test_options_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_options_LDADD = $(LIBTUNNEL) $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_spec
TESTS += tests/unit/test_spec
tests_unit_test_spec_SOURCES = tests/unit/test_spec.c
tests_unit_test_spec_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_spec_LDADD = $(LIBTUNNEL) $(LIBBASE) $(CMOCKA_LIBS)

if LIBSSH2_CHACHA
check_PROGRAMS += tests/unit/test_chachapoly
TESTS += tests/unit/test_chachapoly
tests_unit_test_chachapoly_SOURCES = tests/unit/test_chachapoly.c \
	tunnel/chachapoly.c
tests_unit_test_chachapoly_CPPFLAGS = $(LIBSSH2_CFLAGS) $(AM_CPPFLAGS)
tests_unit_test_chachapoly_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_chachapoly_LDADD = $(OPENSSL_LIBS) $(CMOCKA_LIBS)
endif

check_PROGRAMS += tests/unit/test_sshkey
TESTS += tests/unit/test_sshkey
tests_unit_test_sshkey_SOURCES = tests/unit/test_sshkey.c
tests_unit_test_sshkey_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_sshkey_LDADD = $(LIBTUNNEL) $(LIBBASE) $(OPENSSL_LIBS) \
	$(CMOCKA_LIBS)
