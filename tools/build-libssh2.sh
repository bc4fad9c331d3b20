#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds libssh2 1.11.1 as a static library for sbx-tunnel, for systems whose
# own is older (Debian 12 has 1.10, which knows no AEAD ciphers, no -etm MACs
# and no RSA keys with SHA-2):
#
#     tools/build-libssh2.sh [PREFIX]        (default: build/deps/libssh2)
#
# The source is Debian 13's package, security fixes included, fetched with apt
# into a directory of its own: nothing of the system's apt is changed. apt
# checks the index's signature against Debian's archive keys and each file
# against the index; the upstream tarball is pinned here as well. Does nothing
# when PREFIX is up to date.
set -eu
umask 022
top=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:-$top/build/deps/libssh2}
version=1.11.1
orig_sha256=d9ec76cbe34db98eec3539fe2c899d26b0c837cb3eb466a56b0f109cabf658f7
suite=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

stamp() {
	sha256sum <"$top/tools/build-libssh2.sh"
}

want=$(stamp)
[ "$(cat "$prefix/.stamp" 2>/dev/null)" != "$want" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# The mirrors that this machine already uses for Debian, if any.
mirrors() {
	local seen
	seen=$(sed -n 's/^URIs: *\([^ ]*\/debian\)\/* *$/\1/p
		s/^deb \(\[[^]]*\] \)\?\([^ ]*\/debian\)\/* .*/\2/p' \
		/etc/apt/sources.list /etc/apt/sources.list.d/* \
		2>/dev/null | sort -u | head -n 1)
	printf '%s\n' "${seen:-http://deb.debian.org/debian}"
}

apt() {
	apt-get -q -o Dir::Etc::SourceList="$work/apt.sources" \
		-o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$work/lists" \
		-o Dir::Cache="$work/cache" \
		-o APT::Sandbox::User=root \
		-o Acquire::Retries=3 "$@"
}

fetch() {
	local base
	base=$(mirrors)
	mkdir -p "$work/lists/partial" "$work/cache" "$work/src"
	cat >"$work/apt.sources" <<-EOF
		Types: deb-src
		URIs: $base
		Suites: $suite
		Components: main
		Signed-By: $keyring

		Types: deb-src
		URIs: ${base%/debian}/debian-security
		Suites: $suite-security
		Components: main
		Signed-By: $keyring
	EOF
	apt update && (cd "$work/src" && apt source --download-only libssh2)
}

unpack() {
	local orig=$work/src/libssh2_$version.orig.tar.gz p
	[ -f "$orig" ] || die "$suite does not have libssh2 $version any more"
	echo "$orig_sha256  $orig" | sha256sum -c --quiet ||
		die "libssh2 $version is not the one that was pinned"
	mkdir "$work/tree"
	tar -C "$work/tree" --strip-components=1 -xzf "$orig"
	tar -C "$work/tree" -xJf "$work"/src/libssh2_$version-*.debian.tar.xz
	cd "$work/tree"
	grep -v '^ *\(#\|$\)' debian/patches/series | while read -r p _; do
		patch -s -p1 <"debian/patches/$p" || die "patch $p failed"
	done
}

compile() {
	cd "$work/tree"
	./configure -q --prefix="$prefix" --with-crypto=openssl \
		--without-libz --disable-shared --enable-static --with-pic \
		--disable-examples-build --disable-tests \
		--disable-dependency-tracking CFLAGS="-O2 -g"
	make -s -j "$(nproc)" -C src
	rm -rf "$prefix"
	mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
	cp src/.libs/libssh2.a "$prefix/lib/"
	cp include/libssh2*.h "$prefix/include/"
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

fetch >"$work/log" 2>&1 || {
	tail -n 5 "$work/log" >&2
	die "could not fetch libssh2 $version from $suite"
}
unpack
compile >"$work/log" 2>&1 || {
	tail -n 20 "$work/log" >&2
	die "could not build libssh2 $version"
}
printf '%s\n' "$want" >"$prefix/.stamp"
printf 'libssh2 %s built in %s\n' "$version" "$prefix"
