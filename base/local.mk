# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libbase.a
libbase_a_SOURCES = \
	base/base64.c \
	base/base64.h \
	base/conf.c \
	base/conf.h \
	base/confval.c \
	base/confval.h \
	base/defs.h \
	base/err.c \
	base/err.h \
	base/fdio.c \
	base/fdio.h \
	base/hash.c \
	base/hash.h \
	base/json.c \
	base/json.h \
	base/jsonlex.c \
	base/jsonlex.h \
	base/log.c \
	base/log.h \
	base/mem.c \
	base/mem.h \
	base/query.c \
	base/query.h \
	base/scratch.c \
	base/scratch.h \
	base/str.c \
	base/str.h \
	base/strbuf.c \
	base/token.c \
	base/token.h \
	base/utf8.c \
	base/utf8.h
