# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
	doc/BENCHMARKS.md \
	doc/PROTOCOL.md \
	doc/picture.svg \
	doc/sbx-agent.8.scd \
	doc/sbx-gateway.8.scd \
	doc/sbx-gateway.conf.5.scd \
	doc/sbx-tunnel.1.scd \
	doc/sbx.1.scd

# Manual pages are written in scdoc(5); a release carries the result.
if HAVE_SCDOC
dist_man_MANS += \
	doc/sbx-agent.8 \
	doc/sbx-gateway.8 \
	doc/sbx-gateway.conf.5 \
	doc/sbx-tunnel.1 \
	doc/sbx.1
endif

SCD = $(AM_V_GEN)$(MKDIR_P) doc && $(SCDOC) <$< >$@.tmp && mv $@.tmp $@

doc/sbx-agent.8: doc/sbx-agent.8.scd
	$(SCD)
doc/sbx-gateway.8: doc/sbx-gateway.8.scd
	$(SCD)
doc/sbx-gateway.conf.5: doc/sbx-gateway.conf.5.scd
	$(SCD)
doc/sbx-tunnel.1: doc/sbx-tunnel.1.scd
	$(SCD)
doc/sbx.1: doc/sbx.1.scd
	$(SCD)

MAINTAINERCLEANFILES = doc/sbx-agent.8 doc/sbx-gateway.8 doc/sbx-gateway.conf.5 \
	doc/sbx-tunnel.1 doc/sbx.1
