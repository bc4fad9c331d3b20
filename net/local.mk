# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libnet.a libnettls.a
libnet_a_SOURCES = \
	net/addr.c \
	net/addr.h \
	net/buf.c \
	net/buf.h \
	net/chunk.c \
	net/chunk.h \
	net/dialer.c \
	net/dialer.h \
	net/execwire.c \
	net/execwire.h \
	net/http1.c \
	net/http1.h \
	net/http1_names.c \
	net/http1_parse.c \
	net/http1_scan.h \
	net/http1_write.c \
	net/httpc.c \
	net/httpc.h \
	net/httpc_int.h \
	net/httpc_pool.c \
	net/httpc_req.c \
	net/httpd.c \
	net/httpd.h \
	net/httpd_conn.c \
	net/httpd_int.h \
	net/httpd_pace.c \
	net/httpd_req.c \
	net/httpd_resp.c \
	net/listener.c \
	net/listener.h \
	net/loop.c \
	net/loop.h \
	net/origin.c \
	net/origin.h \
	net/relay.c \
	net/relay.h \
	net/seqpkt.c \
	net/seqpkt.h \
	net/sockdir.c \
	net/sockdir.h \
	net/stream.c \
	net/stream.h \
	net/stream_ev.c \
	net/stream_fd.c \
	net/stream_int.h
libnettls_a_SOURCES = \
	net/tlscert.c \
	net/tlsctx.c \
	net/tlsctx.h \
	net/tlsctx_int.h \
	net/tlsio.c \
	net/tlsio.h \
	net/tlsmem.c \
	net/tlsmem.h \
	net/tlssha.c \
	net/tlssha.h
