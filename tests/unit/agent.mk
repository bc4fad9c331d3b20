# SPDX-License-Identifier: Apache-2.0

check_PROGRAMS += tests/unit/test_sockdir
TESTS += tests/unit/test_sockdir
tests_unit_test_sockdir_SOURCES = tests/unit/test_sockdir.c
tests_unit_test_sockdir_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_sockdir_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)
