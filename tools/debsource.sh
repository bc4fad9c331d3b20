# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the build-*.sh here share: a Debian source package, fetched with apt into
# a directory of its own (nothing of the system's apt is changed), unpacked and
# patched. apt checks the index's signature against Debian's archive keys and
# each file against the index; the upstream tarball is pinned by the caller as
# well. Sourced, not run.

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# The mirrors that this machine already uses for Debian, if any.
debsource_mirror() {
	local seen
	seen=$(sed -n 's/^URIs: *\([^ ]*\/debian\)\/* *$/\1/p
		s/^deb \(\[[^]]*\] \)\?\([^ ]*\/debian\)\/* .*/\2/p' \
		/etc/apt/sources.list /etc/apt/sources.list.d/* \
		2>/dev/null | sort -u | head -n 1)
	printf '%s\n' "${seen:-http://deb.debian.org/debian}"
}

debsource_apt() { # WORK apt-get-arguments...
	local work=$1
	shift
	apt-get -q -o Dir::Etc::SourceList="$work/apt.sources" \
		-o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$work/lists" \
		-o Dir::Cache="$work/cache" \
		-o APT::Sandbox::User=root \
		-o Acquire::Retries=3 "$@"
}

# debsource_fetch WORK SUITE PACKAGE: its files are in WORK/src then.
debsource_fetch() {
	local work=$1 suite=$2 package=$3 base keyring
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	base=$(debsource_mirror)
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
	debsource_apt "$work" update &&
		(cd "$work/src" && debsource_apt "$work" source \
			--download-only "$package")
}

# debsource_unpack WORK PACKAGE VERSION SHA256: into WORK/tree, with Debian's
# patches.
debsource_unpack() {
	local work=$1 package=$2 version=$3 sha256=$4 orig p
	orig=$work/src/${package}_$version.orig.tar.gz
	[ -f "$orig" ] || die "there is no $package $version any more"
	echo "$sha256  $orig" | sha256sum -c --quiet ||
		die "$package $version is not the one that was pinned"
	mkdir "$work/tree"
	tar -C "$work/tree" --strip-components=1 -xzf "$orig"
	tar -C "$work/tree" -xJf "$work/src/${package}_$version"-*.debian.tar.xz
	grep -v '^ *\(#\|$\)' "$work/tree/debian/patches/series" |
		while read -r p _; do
			patch -d "$work/tree" -s -p1 \
				<"$work/tree/debian/patches/$p" ||
				die "patch $p failed"
		done
}
