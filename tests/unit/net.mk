# SPDX-License-Identifier: Apache-2.0
# The loop driver, the recording owner and the fault layer of net's tests.
NET_HELP = tests/unit/fault_io.c tests/unit/fault_io.h \
	tests/unit/net_help.c tests/unit/net_help.h

check_PROGRAMS += tests/unit/test_addr
TESTS += tests/unit/test_addr
tests_unit_test_addr_SOURCES = tests/unit/test_addr.c
tests_unit_test_addr_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_addr_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_buf
TESTS += tests/unit/test_buf
tests_unit_test_buf_SOURCES = tests/unit/test_buf.c
tests_unit_test_buf_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_buf_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_chunk
TESTS += tests/unit/test_chunk
tests_unit_test_chunk_SOURCES = tests/unit/test_chunk.c
tests_unit_test_chunk_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_chunk_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_execwire
TESTS += tests/unit/test_execwire
tests_unit_test_execwire_SOURCES = tests/unit/test_execwire.c
tests_unit_test_execwire_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_execwire_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_dialer
TESTS += tests/unit/test_dialer
tests_unit_test_dialer_SOURCES = tests/unit/test_dialer.c $(NET_HELP)
tests_unit_test_dialer_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_dialer_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_http1
TESTS += tests/unit/test_http1
tests_unit_test_http1_SOURCES = tests/unit/test_http1.c \
	tests/unit/http1_diff.c tests/unit/http1_diff.h
tests_unit_test_http1_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_http1_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_http1_response
TESTS += tests/unit/test_http1_response
tests_unit_test_http1_response_SOURCES = tests/unit/test_http1_response.c \
	tests/unit/http1_diff.c tests/unit/http1_diff.h
tests_unit_test_http1_response_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_http1_response_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_httpc
TESTS += tests/unit/test_httpc
tests_unit_test_httpc_SOURCES = tests/unit/test_httpc.c $(NET_HELP) \
	tests/unit/httpc_help.c tests/unit/httpc_help.h
tests_unit_test_httpc_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_httpc_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_httpc_ends
TESTS += tests/unit/test_httpc_ends
tests_unit_test_httpc_ends_SOURCES = tests/unit/test_httpc_ends.c \
	$(NET_HELP) tests/unit/httpc_help.c tests/unit/httpc_help.h
tests_unit_test_httpc_ends_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_httpc_ends_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_httpd
TESTS += tests/unit/test_httpd
tests_unit_test_httpd_SOURCES = tests/unit/test_httpd.c $(NET_HELP) \
	tests/unit/httpd_help.c tests/unit/httpd_help.h
tests_unit_test_httpd_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_httpd_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_httpd_body
TESTS += tests/unit/test_httpd_body
tests_unit_test_httpd_body_SOURCES = tests/unit/test_httpd_body.c \
	$(NET_HELP) tests/unit/httpd_help.c tests/unit/httpd_help.h
tests_unit_test_httpd_body_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_httpd_body_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_httpd_ends
TESTS += tests/unit/test_httpd_ends
tests_unit_test_httpd_ends_SOURCES = tests/unit/test_httpd_ends.c \
	$(NET_HELP) tests/unit/httpd_help.c tests/unit/httpd_help.h
tests_unit_test_httpd_ends_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_httpd_ends_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_listener
TESTS += tests/unit/test_listener
tests_unit_test_listener_SOURCES = tests/unit/test_listener.c $(NET_HELP)
tests_unit_test_listener_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_listener_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_loop
TESTS += tests/unit/test_loop
tests_unit_test_loop_SOURCES = tests/unit/test_loop.c
tests_unit_test_loop_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_loop_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_relay
TESTS += tests/unit/test_relay
tests_unit_test_relay_SOURCES = tests/unit/test_relay.c $(NET_HELP)
tests_unit_test_relay_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_relay_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_seqpkt
TESTS += tests/unit/test_seqpkt
tests_unit_test_seqpkt_SOURCES = tests/unit/test_seqpkt.c $(NET_HELP)
tests_unit_test_seqpkt_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_seqpkt_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_stream
TESTS += tests/unit/test_stream
tests_unit_test_stream_SOURCES = tests/unit/test_stream.c $(NET_HELP)
tests_unit_test_stream_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_stream_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_tlsctx
TESTS += tests/unit/test_tlsctx
tests_unit_test_tlsctx_SOURCES = tests/unit/test_tlsctx.c $(NET_HELP) \
	tests/unit/tls_help.c tests/unit/tls_help.h
tests_unit_test_tlsctx_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_tlsctx_LDADD = $(NETTLS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_tlsio
TESTS += tests/unit/test_tlsio
tests_unit_test_tlsio_SOURCES = tests/unit/test_tlsio.c $(NET_HELP) \
	tests/unit/tls_help.c tests/unit/tls_help.h
tests_unit_test_tlsio_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_tlsio_LDADD = $(NETTLS_LIBS) $(CMOCKA_LIBS)
