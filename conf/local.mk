# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += conf/sbx-gateway.service.in

# The sample is the example of the manual page.
conf/gateway.conf: doc/sbx-gateway.conf.5.scd
	$(AM_V_GEN)$(MKDIR_P) conf && \
	$(SED) -n '/^```/,/^```/{/^```/d;p}' <$< >$@.tmp && mv $@.tmp $@

conf/sbx-gateway.service: conf/sbx-gateway.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) conf && \
	$(SED) -e 's|[@]sbindir[@]|$(sbindir)|g' \
		-e 's|[@]sysconfdir[@]|$(sysconfdir)|g' \
		<$(srcdir)/conf/sbx-gateway.service.in >$@.tmp && mv $@.tmp $@

exampledir = $(docdir)/examples
nodist_example_DATA = conf/gateway.conf
systemdunitdir = $(prefix)/lib/systemd/system
nodist_systemdunit_DATA = conf/sbx-gateway.service
CLEANFILES += conf/gateway.conf conf/sbx-gateway.service
EXTRA_DIST += conf/examples/launch-unshare.sh conf/examples/launch-slurm.sh \
	conf/examples/launch-podman.conf conf/examples/launch-podman.sh
