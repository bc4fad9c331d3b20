# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libnet.a libnettls.a
libnet_a_SOURCES = \
	net/addr.c \
	net/addr.h \
	net/buf.c \
	net/buf.h \
	net/loop.c \
	net/loop.h
libnettls_a_SOURCES =
