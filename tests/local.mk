# SPDX-License-Identifier: Apache-2.0
# Unit tests are one program per source file, tests/unit/test_<file>.c; a
# folder's stanzas stand in tests/unit/<folder>.mk.
UNIT_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
if HAVE_CMOCKA
include tests/unit/base.mk
include tests/unit/net.mk
include tests/unit/gateway.mk
include tests/unit/agent.mk
include tests/unit/tunnel.mk
endif
dist_check_SCRIPTS = tests/layering.sh
TESTS += tests/layering.sh
include tests/fuzz/local.mk
include tests/bench/local.mk
EXTRA_DIST += quickstart check tools/build-cjson.sh \
	tools/build-libssh2.sh tools/debsource.sh tools/setup.sh \
	tools/demo.py examples/demo \
	.ci/run .clang-format .clang-tidy .editorconfig .gitignore tests/e2e

# What clang-tidy has to know, from any directory.
.PHONY: print-cppflags
print-cppflags:
	@echo -std=gnu11 -DHAVE_CONFIG_H -I$(abs_top_builddir) \
		'-DPKGLIBEXECDIR="$(pkglibexecdir)"' \
		-I$(abs_top_srcdir) $(EVENT_CFLAGS) $(OPENSSL_CFLAGS) \
		$(CJSON_CFLAGS) $(CMOCKA_CFLAGS) $(WSLAY_CFLAGS) \
		$(LIBSSH2_CFLAGS)
