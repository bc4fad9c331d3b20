#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds cJSON 1.7.15 as a static library for `make sbx-agent-static`: Debian
# 12 has a shared one only.
#
#     tools/build-cjson.sh [PREFIX]          (default: build/deps/cjson)
#
# The source is Debian 12's own package, security fixes included: see
# tools/debsource.sh. Does nothing when PREFIX is up to date. CC and CFLAGS are
# heeded.
set -eu
umask 022
top=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:-$top/build/deps/cjson}
version=1.7.15
orig_sha256=5308fd4bd90cef7aa060558514de6a1a4a0819974a26e6ed13973c5f624c24b2
suite=bookworm
. "$top/tools/debsource.sh"

compile() {
	cd "$work/tree"
	# shellcheck disable=SC2086 # both are lists of words
	${CC:-cc} ${CFLAGS:--Os} -ffunction-sections -fdata-sections \
		-c cJSON.c -o cJSON.o
	rm -rf "$prefix"
	mkdir -p "$prefix/lib" "$prefix/include/cjson"
	ar rc "$prefix/lib/libcjson.a" cJSON.o
	cp cJSON.h "$prefix/include/cjson/"
}

debsource_build cjson "${CC:-cc} ${CFLAGS:-}"
