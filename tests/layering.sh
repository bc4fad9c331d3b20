#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The arrows between the folders point one way (ARCHITECTURE.md), third-party
# headers stay in the files that wrap them, and every .c begins with config.h.
# Prints each line that breaks a rule and fails when there was one.

cd "${srcdir:-.}" || exit 2
folders="base net gateway agent tunnel cli"
bad=$(mktemp) || exit 2
trap 'rm -f "$bad"' EXIT

# allow FOLDER PATTERN: FOLDER's own includes must match PATTERN.
allow() {
	grep -Hn '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' \
		"$1"/*.[ch] 2>/dev/null |
		grep -vE "include[[:space:]]*\"($2)\"" |
		sed "s|\$|    <- $1 must not include this|" >>"$bad"
}

allow base 'config\.h|base/[a-z0-9_]+\.h'
allow net 'config\.h|(base|net)/[a-z0-9_]+\.h'
for f in gateway agent tunnel cli; do
	allow $f "config\\.h|(base|net|$f)/[a-z0-9_]+\\.h"
done

# only HEADERS FILES: the headers may be included by these files alone.
only() {
	for f in $folders; do
		grep -HnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<($1)" \
			"$f"/*.[ch] 2>/dev/null
	done | grep -vE "^($2):" |
		sed 's|$|    <- not in this file|' >>"$bad"
}

only '(cjson/)?cJSON\.h' 'base/json\.c'
only 'sqlite3\.h' 'gateway/jobstore(_[a-z]+)?\.[ch]'
only 'archive(_entry)?\.h' 'gateway/snaptar(_[a-z]+)?\.[ch]'
only 'wslay/' 'net/ws\.c'
only 'openssl/' '(net/tls[a-z0-9_]*\.[ch]|tunnel/(chachapoly|hostkey|rsasign|sshkey)\.c)'
only 'libssh2' '(tunnel/[a-z0-9_]+\.c|tunnel/session_int\.h)'
only 'event2?/|event\.h|evutil\.h' '(net|gateway|agent|tunnel|cli)/[a-z0-9_]+\.[ch]'

for f in $folders; do
	for c in "$f"/*.c; do
		[ -e "$c" ] || continue
		first=$(grep -m1 -E '^[[:space:]]*#' "$c")
		[ "$first" = '#include "config.h"' ] ||
			echo "$c: does not begin with config.h: $first" >>"$bad"
	done
done

if [ -s "$bad" ]; then
	cat "$bad"
	exit 1
fi
