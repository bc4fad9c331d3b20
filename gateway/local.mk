# SPDX-License-Identifier: Apache-2.0
# Everything but main.c is a convenience library, so that unit tests link it.
noinst_LIBRARIES += libgateway.a
LIBGATEWAY = libgateway.a
libgateway_a_SOURCES = \
	gateway/exchange.h \
	gateway/gwconf.h \
	gateway/route.c \
	gateway/route.h \
	gateway/route_match.c \
	gateway/stats.h \
	gateway/worker.h
