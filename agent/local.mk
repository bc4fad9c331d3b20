# SPDX-License-Identifier: Apache-2.0
# Everything but main.c is a convenience library, so that unit tests link it.
# No OpenSSL here: the agent is to be small, and static one day.
noinst_LIBRARIES += libagent.a
LIBAGENT = libagent.a
libagent_a_SOURCES = \
	agent/actas.c \
	agent/actas.h \
	agent/agentconf.c \
	agent/agentconf.h \
	agent/api.c \
	agent/api.h \
	agent/api_int.h \
	agent/apiattach.c \
	agent/apicontext.c \
	agent/apienv.c \
	agent/apiexec.c \
	agent/apifiles.c \
	agent/apifiles_int.h \
	agent/apihost.c \
	agent/apilist.c \
	agent/apilogs.c \
	agent/apiports.c \
	agent/apiprocs.c \
	agent/apiproxy.c \
	agent/apiread.c \
	agent/apirepl.c \
	agent/apiutil.c \
	agent/apiwrite.c \
	agent/baseenv.c \
	agent/baseenv.h \
	agent/borrow.c \
	agent/borrow.h \
	agent/cgroup.c \
	agent/cgroup.h \
	agent/check.c \
	agent/check.h \
	agent/control.c \
	agent/control.h \
	agent/descend.c \
	agent/descend.h \
	agent/enclose.c \
	agent/enclose.h \
	agent/events.c \
	agent/events.h \
	agent/evstream.c \
	agent/evstream.h \
	agent/execreq.c \
	agent/execreq.h \
	agent/filename.c \
	agent/filename.h \
	agent/filepath.c \
	agent/files.c \
	agent/files.h \
	agent/files_int.h \
	agent/frames.c \
	agent/frames.h \
	agent/homefs.c \
	agent/homefs.h \
	agent/host.c \
	agent/host.h \
	agent/hostcheck.c \
	agent/hostcheck.h \
	agent/interp.c \
	agent/interp.h \
	agent/jobbuild.c \
	agent/jobcmd.c \
	agent/jobcmd.h \
	agent/jobend.c \
	agent/jobend.h \
	agent/jobgroup.c \
	agent/jobgroup.h \
	agent/jobinit.c \
	agent/jobinit.h \
	agent/jobkill.c \
	agent/jobkill.h \
	agent/joblog.c \
	agent/joblog.h \
	agent/jobmain.c \
	agent/jobmain.h \
	agent/jobnet.c \
	agent/jobnet.h \
	agent/jobns.c \
	agent/jobns.h \
	agent/jobroot.c \
	agent/jobroot.h \
	agent/jobout.c \
	agent/jobout.h \
	agent/jobprep.c \
	agent/jobprep.h \
	agent/jobrun.c \
	agent/jobrun.h \
	agent/jobrun_int.h \
	agent/jobrun_net.c \
	agent/jobsock.c \
	agent/jobsock.h \
	agent/jobdef.c \
	agent/jobdef.h \
	agent/landlock.c \
	agent/landlock.h \
	agent/layer.c \
	agent/layer.h \
	agent/leftover.c \
	agent/leftover.h \
	agent/lent.c \
	agent/lent.h \
	agent/ns.c \
	agent/ns.h \
	agent/nemo.c \
	agent/nemo.h \
	agent/nemo_int.h \
	agent/nemoexec.c \
	agent/nemofile.c \
	agent/portscan.c \
	agent/portscan.h \
	agent/proc.c \
	agent/proc.h \
	agent/proc_int.h \
	agent/procio.c \
	agent/pty.c \
	agent/pty.h \
	agent/reach.c \
	agent/reach.h \
	agent/repl.c \
	agent/repl.h \
	agent/repl_int.h \
	agent/replcall.c \
	agent/replfork.c \
	agent/ring.c \
	agent/ring.h \
	agent/rmtree.c \
	agent/rmtree.h \
	agent/run.c \
	agent/run.h \
	agent/run_int.h \
	agent/runkeep.c \
	agent/sandbox.c \
	agent/sandbox.h \
	agent/seccomp.c \
	agent/seccomp.h \
	agent/spawn.c \
	agent/spawn.h \
	agent/uidkill.c \
	agent/uidkill.h \
	agent/uidpool.c \
	agent/uidpool.h \
	agent/upload.c \
	agent/walls.c \
	agent/walls.h \
	agent/work.c \
	agent/work.h

sbin_PROGRAMS += sbx-agent
sbx_agent_SOURCES = agent/main.c
sbx_agent_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) -lpthread

# One file that runs in any image: `make sbx-agent-static`. cJSON comes from
# Debian's source, because Debian has no static one (needs apt, and a network).
EXTRA_PROGRAMS += sbx-agent-static
sbx_agent_static_SOURCES = agent/main.c agent/nonss.c $(libagent_a_SOURCES) \
	$(libnet_a_SOURCES) $(libbase_a_SOURCES)
sbx_agent_static_CFLAGS = $(SBX_STATIC_CFLAGS)
sbx_agent_static_LDFLAGS = $(SBX_STATIC_LDFLAGS)
sbx_agent_static_LDADD = deps/cjson/lib/libcjson.a $(EVENT_LIBS) -lpthread -lm
EXTRA_sbx_agent_static_DEPENDENCIES = deps/cjson/lib/libcjson.a

deps/cjson/lib/libcjson.a: tools/build-cjson.sh tools/debsource.sh
	$(AM_V_GEN)$(SHELL) $(top_srcdir)/tools/build-cjson.sh \
		"$(abs_top_builddir)/deps/cjson" && touch $@

# Installed when it was made: a gateway looks for it beside itself and there.
install-exec-hook:
	@if test -f sbx-agent-static; then \
		$(MKDIR_P) "$(DESTDIR)$(pkglibexecdir)" && \
		$(INSTALL_PROGRAM) -s sbx-agent-static \
			"$(DESTDIR)$(pkglibexecdir)/sbx-agent-static"; \
	fi
uninstall-hook:
	rm -f "$(DESTDIR)$(pkglibexecdir)/sbx-agent-static"
CLEANFILES += sbx-agent-static

# The interpreter's side of run_code, as the bytes of a C array.
EXTRA_DIST += agent/runner.py agent/forks.py agent/views.py
BUILT_SOURCES += agent/runner_py.h
CLEANFILES += agent/runner_py.h
agent/interp.$(OBJEXT) agent/sbx_agent_static-interp.$(OBJEXT): agent/runner_py.h
# What it does when it is run by itself is not for the agent.
agent/runner_py.h: agent/runner.py agent/forks.py agent/views.py
	$(AM_V_GEN)$(MKDIR_P) agent && \
	{ sed '/^class Lines:/,$$d' $(srcdir)/agent/runner.py && printf '\0' && \
	  cat $(srcdir)/agent/forks.py && printf '\0' && \
	  cat $(srcdir)/agent/views.py; } | gzip -9n | \
	od -An -v -tu1 | \
	sed 's/[0-9][0-9]*/&,/g' >$@.tmp && mv $@.tmp $@
