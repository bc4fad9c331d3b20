# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the lists are for the caller
#
# What ./quickstart and ./check share: which Debian packages are needed and
# why, how they get installed, and how the tree is built. Sourced, not run;
# the caller stands in the top directory. Doing it again when there is nothing
# to do takes a second.

# To build and run.
PKG_BUILD=(gcc libc6-dev make autoconf automake pkg-config
	libevent-dev libssl-dev libcjson-dev libsqlite3-dev libwslay-dev
	libssh2-1-dev libarchive-dev)
# The demo inside the sandbox, and what looks at it.
PKG_DEMO=(python3 curl ca-certificates)
# Tests: unit, end to end, real clients.
PKG_TEST=(libcmocka-dev python3-pytest python3-pytest-xdist
	python3-websockets wrk busybox-static e2fsprogs openssl chromium
	openssh-client openssh-server iproute2 git procps zstd)
# Analysis and release checks.
PKG_LINT=(clang clang-format clang-tidy libclang-rt-14-dev llvm cppcheck
	valgrind shellcheck scdoc xz-utils patch)

say() {
	printf '%s\n' "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Those of "$@" that are not installed, one per line.
packages_missing() {
	local have
	have=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" \
		2>/dev/null | sed -n 's/^ii  *//p')
	comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$have")
}

packages_apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -q \
		-o DPkg::Lock::Timeout=300 -o APT::Color=0 "$@" </dev/null
}

# Installs what is missing of "$@". The package lists are fetched only when
# there are none yet or when they turn out to be too old.
packages_install() {
	local missing log
	mapfile -t missing < <(packages_missing "$@")
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null ||
		die "needs Debian 12 (apt-get); please install: ${missing[*]}"
	[ "$(id -u)" = 0 ] || die "these packages are missing: ${missing[*]}
Run this as root (sudo $0), or install them first:
  sudo apt-get install --no-install-recommends ${missing[*]}"
	say "installing ${#missing[@]} Debian packages: ${missing[*]}"
	log=$(mktemp)
	if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
		packages_apt update >"$log" 2>&1 || true
	fi
	if ! packages_apt install -y --no-install-recommends \
		"${missing[@]}" >"$log" 2>&1; then
		packages_apt update >"$log" 2>&1 || true
		packages_apt install -y --no-install-recommends \
			"${missing[@]}" >>"$log" 2>&1 || {
			tail -n 20 "$log" >&2
			rm -f "$log"
			die "apt-get could not install: ${missing[*]}"
		}
	fi
	rm -f "$log"
}

# A newer libssh2 than Debian 12's, for sbx-tunnel. Without it the tunnel is
# built with the system's, and does less.
libssh2_build() {
	timeout 180 tools/build-libssh2.sh ||
		say "going on with the system's libssh2"
}

# Makes ./configure when it is missing or older than what it is made from.
tree_autogen() {
	if [ -x configure ] && [ -f Makefile.in ] &&
		[ -z "$(find configure.ac Makefile.am autogen.sh m4 \
			./*/local.mk tests/*/*.mk \
			-newer Makefile.in -print -quit)" ]; then
		return 0
	fi
	./autogen.sh && touch aclocal.m4 config.h.in configure Makefile.in
}

# tree_configure DIR [configure arguments]: once, and again when the arguments
# or ./configure changed. (A plain change of a makefile fragment is make's.)
tree_configure() {
	local dir=$1 want
	shift
	want="$* CC=${CC:-} CFLAGS=${CFLAGS:-}"
	if [ -f "$dir/config.status" ] && [ -f "$dir/Makefile" ] &&
		[ ! configure -nt "$dir/config.status" ] &&
		[ "$(cat "$dir/.configured" 2>/dev/null)" = "$want" ]; then
		return 0
	fi
	mkdir -p "$dir"
	(cd "$dir" && "$SBX_TOP/configure" -q "$@") &&
		printf '%s' "$want" >"$dir/.configured"
}
