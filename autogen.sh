#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from a git checkout (a release tarball has it already).
set -e
cd "$(dirname "$0")"
exec autoreconf --install --warnings=all
