# SPDX-License-Identifier: Apache-2.0
# Benchmarks: built by `make bench-tools`, run by `make bench`; never part of
# the test suite (no timed assertions there).
BENCH_TOOLS = tests/bench/backend tests/bench/bench_http1 \
	tests/bench/bench_httpd tests/bench/bench_relay tests/bench/load
EXTRA_PROGRAMS += $(BENCH_TOOLS)
EXTRA_DIST += tests/bench/agent.py tests/bench/coreweave.py \
	tests/bench/edge.py tests/bench/repl.py \
	tests/bench/snapshot.py tests/bench/tunnel.py
CLEANFILES += $(BENCH_TOOLS)

tests_bench_backend_SOURCES = tests/bench/backend.c
# ns per request head: tests/bench/bench_http1
tests_bench_bench_http1_SOURCES = tests/bench/bench_http1.c
tests_bench_bench_http1_LDADD = $(NET_LIBS)

# what net/httpd costs: tests/bench/bench_httpd, and wrk at its port
tests_bench_bench_httpd_SOURCES = tests/bench/bench_httpd.c
tests_bench_bench_httpd_LDADD = $(NET_LIBS)

# what stream, relay and TLS cost: tests/bench/bench_relay
tests_bench_bench_relay_SOURCES = tests/bench/bench_relay.c
tests_bench_bench_relay_LDADD = $(NETTLS_LIBS)

tests_bench_load_SOURCES = tests/bench/load.c
tests_bench_load_LDADD = $(OPENSSL_LIBS)

.PHONY: bench bench-tools
bench-tools: $(BENCH_TOOLS)
bench: all
	$(MAKE) $(AM_MAKEFLAGS) bench-tools
	/usr/bin/python3 $(srcdir)/tests/bench/edge.py --build $(builddir)
	SBX_BUILD=$(builddir) /usr/bin/python3 \
		$(srcdir)/tests/bench/agent.py $(BENCH_AGENT)
	SBX_BUILD=$(builddir) /usr/bin/python3 $(srcdir)/tests/bench/repl.py
