# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
	doc/BENCHMARKS.md \
	doc/PROTOCOL.md \
	doc/picture.svg
