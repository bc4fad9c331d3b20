# SPDX-License-Identifier: Apache-2.0

check_PROGRAMS += tests/unit/test_base64
TESTS += tests/unit/test_base64
tests_unit_test_base64_SOURCES = tests/unit/test_base64.c
tests_unit_test_base64_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_base64_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_conf
TESTS += tests/unit/test_conf
tests_unit_test_conf_SOURCES = tests/unit/test_conf.c
tests_unit_test_conf_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_conf_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_err
TESTS += tests/unit/test_err
tests_unit_test_err_SOURCES = tests/unit/test_err.c
tests_unit_test_err_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_err_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_fdio
TESTS += tests/unit/test_fdio
tests_unit_test_fdio_SOURCES = tests/unit/test_fdio.c
tests_unit_test_fdio_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_fdio_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_hash
TESTS += tests/unit/test_hash
tests_unit_test_hash_SOURCES = tests/unit/test_hash.c
tests_unit_test_hash_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_hash_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_json
TESTS += tests/unit/test_json
tests_unit_test_json_SOURCES = tests/unit/test_json.c
tests_unit_test_json_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_json_LDADD = $(LIBBASE) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_log
TESTS += tests/unit/test_log
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_log_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_log_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_mem
TESTS += tests/unit/test_mem
tests_unit_test_mem_SOURCES = tests/unit/test_mem.c
tests_unit_test_mem_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_mem_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_query
TESTS += tests/unit/test_query
tests_unit_test_query_SOURCES = tests/unit/test_query.c
tests_unit_test_query_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_query_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_scratch
TESTS += tests/unit/test_scratch
tests_unit_test_scratch_SOURCES = tests/unit/test_scratch.c
tests_unit_test_scratch_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_scratch_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_str
TESTS += tests/unit/test_str
tests_unit_test_str_SOURCES = tests/unit/test_str.c
tests_unit_test_str_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_str_LDADD = $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_token
TESTS += tests/unit/test_token
tests_unit_test_token_SOURCES = tests/unit/test_token.c
tests_unit_test_token_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_token_LDADD = $(LIBBASE) $(CMOCKA_LIBS)
