# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/unit/test_route
TESTS += tests/unit/test_route
tests_unit_test_route_SOURCES = tests/unit/test_route.c
tests_unit_test_route_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_route_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CMOCKA_LIBS)
