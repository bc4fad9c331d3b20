# SPDX-License-Identifier: Apache-2.0
# Everything but main.c is a convenience library, so that unit tests link it.
noinst_LIBRARIES += libgateway.a
LIBGATEWAY = libgateway.a
libgateway_a_SOURCES = \
	gateway/accesslog.c \
	gateway/accesslog.h \
	gateway/errpage.c \
	gateway/errpage.h \
	gateway/exchange.h \
	gateway/forwarded.c \
	gateway/forwarded.h \
	gateway/gwcheck.c \
	gateway/gwconf.c \
	gateway/gwconf.h \
	gateway/gwconf_sec.h \
	gateway/gwdump.c \
	gateway/gwspec.c \
	gateway/limits.c \
	gateway/limits.h \
	gateway/rewrite.c \
	gateway/rewrite.h \
	gateway/route.c \
	gateway/route.h \
	gateway/route_match.c \
	gateway/stats.h \
	gateway/worker.h
