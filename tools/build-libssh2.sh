#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds libssh2 1.11.1 as a static library for sbx-tunnel, for systems whose
# own is older (Debian 12 has 1.10, which knows no AEAD ciphers, no -etm MACs
# and no RSA keys with SHA-2):
#
#     tools/build-libssh2.sh [PREFIX]        (default: build/deps/libssh2)
#
# The source is Debian 13's package, security fixes included: see
# tools/debsource.sh. Does nothing when PREFIX is up to date.
set -eu
umask 022
top=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:-$top/build/deps/libssh2}
version=1.11.1
orig_sha256=d9ec76cbe34db98eec3539fe2c899d26b0c837cb3eb466a56b0f109cabf658f7
suite=trixie

. "$top/tools/debsource.sh"

# Where in its session libssh2 keeps the state of a channel that is being
# opened: tunnel/openstate.c puts it aside, so that many can be at once. And
# whether the functions that tunnel/farwrap.c wraps are declared as it thinks.
open_state() {
	cat >"$work/open.c" <<-'EOF'
		#include <stddef.h>
		#include <stdio.h>
		#include "libssh2_priv.h"
		#include "packet.h"
		#include "transport.h"
		#define AT(f) offsetof(struct _LIBSSH2_SESSION, f)
		int (*add)(LIBSSH2_SESSION *, unsigned char *, size_t, int,
			   uint32_t) = _libssh2_packet_add;
		int (*out)(LIBSSH2_SESSION *, const unsigned char *, size_t,
			   const unsigned char *, size_t) =
			_libssh2_transport_send;
		int main(void)
		{
			printf("#define LIBSSH2_OPEN_AT   %zu\n"
			       "#define LIBSSH2_OPEN_SIZE %zu\n", AT(open_state),
			       AT(open_local_channel) + sizeof(uint32_t) -
			       AT(open_state));
			return !(AT(open_state) < AT(open_packet_requirev_state) &&
				 AT(open_packet_requirev_state) < AT(open_channel) &&
				 AT(open_channel) < AT(open_packet) &&
				 AT(open_packet) < AT(open_packet_len) &&
				 AT(open_packet_len) < AT(open_data) &&
				 AT(open_data) < AT(open_data_len) &&
				 AT(open_data_len) < AT(open_local_channel));
		}
	EOF
	"${CC:-cc}" -DHAVE_CONFIG_H -DLIBSSH2_OPENSSL -Isrc -Iinclude \
		-Werror -o "$work/open" "$work/open.c" src/.libs/libssh2.a \
		-lcrypto
	"$work/open" >"$work/open.h"
}

compile() {
	cd "$work/tree"
	./configure -q --prefix="$prefix" --with-crypto=openssl \
		--without-libz --disable-shared --enable-static --with-pic \
		--disable-examples-build --disable-tests \
		--disable-dependency-tracking CFLAGS="-O2 -g"
	make -s -j "$(nproc)" -C src
	open_state
	rm -rf "$prefix"
	mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
	cp src/.libs/libssh2.a "$prefix/lib/"
	cp include/libssh2*.h "$prefix/include/"
	cp "$work/open.h" "$prefix/include/libssh2_open.h"
	cat >"$prefix/lib/pkgconfig/libssh2.pc" <<-EOF
		libdir=$prefix/lib
		includedir=$prefix/include

		Name: libssh2
		Description: SSH2 client library
		Version: $version
		Requires.private: libcrypto
		Libs: -L\${libdir} -lssh2 -lcrypto
		Cflags: -I\${includedir}
	EOF
}

debsource_build libssh2
