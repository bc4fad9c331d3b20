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

# shellcheck disable=SC2154
debsource_stamp() {
	cat "$top/tools/build-$1.sh" "$top/tools/debsource.sh" | sha256sum
	printf '%s\n' "$2"
}

# debsource_build PACKAGE [WORDS]: has the caller's compile() make $prefix from
# $work/tree, unless it was made by the same scripts with the same WORDS. Of the
# caller are also $top, $version, $orig_sha256 and $suite.
# shellcheck disable=SC2154
debsource_build() {
	local package=$1 want
	want=$(debsource_stamp "$package" "${2:-}")
	[ "$(cat "$prefix/.stamp" 2>/dev/null)" != "$want" ] || return 0
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work"
	debsource_fetch "$work" "$suite" "$package" >"$work/log" 2>&1 || {
		tail -n 5 "$work/log" >&2
		die "could not fetch $package $version from $suite"
	}
	debsource_unpack "$work" "$package" "$version" "$orig_sha256"
	compile >"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		die "could not build $package $version"
	}
	printf '%s\n' "$want" >"$prefix/.stamp"
	printf '%s %s built in %s\n' "$package" "$version" "$prefix"
}
