# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libtunnel.a
# What needs no libssh2: unit tests link it alone.
libtunnel_a_SOURCES = \
	tunnel/backoff.c \
	tunnel/backoff.h \
	tunnel/cli.c \
	tunnel/cli.h \
	tunnel/expand.c \
	tunnel/expand.h \
	tunnel/farsock.c \
	tunnel/farsock.h \
	tunnel/hostkey.c \
	tunnel/hostkey.h \
	tunnel/options.c \
	tunnel/options.h \
	tunnel/pattern.c \
	tunnel/pattern.h \
	tunnel/spec.c \
	tunnel/spec.h \
	tunnel/rsasign.c \
	tunnel/rsasign.h \
	tunnel/sshconfig.c \
	tunnel/sshconfig.h \
	tunnel/sshkey.c \
	tunnel/sshkey.h
LIBTUNNEL = libtunnel.a

bin_PROGRAMS += sbx-tunnel
sbx_tunnel_SOURCES = \
	tunnel/auth.c \
	tunnel/auth.h \
	tunnel/bindspec.c \
	tunnel/bindspec.h \
	tunnel/chan.c \
	tunnel/chan.h \
	tunnel/exec.c \
	tunnel/extra.c \
	tunnel/extra.h \
	tunnel/farwrap.c \
	tunnel/forward.c \
	tunnel/forward.h \
	tunnel/handoff.c \
	tunnel/handoff.h \
	tunnel/link.c \
	tunnel/link.h \
	tunnel/main.c \
	tunnel/many.c \
	tunnel/many.h \
	tunnel/openstate.c \
	tunnel/openstate.h \
	tunnel/passphrase.c \
	tunnel/passphrase.h \
	tunnel/pump.c \
	tunnel/reach.c \
	tunnel/reach.h \
	tunnel/resolve.c \
	tunnel/resolve.h \
	tunnel/say.c \
	tunnel/say.h \
	tunnel/session.c \
	tunnel/session.h \
	tunnel/session_int.h \
	tunnel/setup.c \
	tunnel/spread.c \
	tunnel/spread.h \
	tunnel/status.c \
	tunnel/status.h \
	tunnel/tunnel.c \
	tunnel/tunnel.h \
	tunnel/verify.c \
	tunnel/verify.h
sbx_tunnel_CPPFLAGS = $(LIBSSH2_CFLAGS) $(AM_CPPFLAGS)
sbx_tunnel_CFLAGS = $(AM_CFLAGS) -pthread
sbx_tunnel_LDADD = $(LIBTUNNEL) $(NET_LIBS) $(LIBSSH2_LIBS) $(OPENSSL_LIBS) \
	-lpthread
if LIBSSH2_CHACHA
sbx_tunnel_SOURCES += tunnel/chachapoly.c tunnel/chachapoly.h
endif
if LIBSSH2_WRAP
sbx_tunnel_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=_libssh2_transport_send \
	-Wl,--wrap=_libssh2_packet_add
endif
