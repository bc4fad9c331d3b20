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
	agent/apiutil.c \
	agent/apiwrite.c \
	agent/baseenv.c \
	agent/baseenv.h \
	agent/borrow.c \
	agent/borrow.h \
	agent/check.c \
	agent/check.h \
	agent/control.c \
	agent/control.h \
	agent/descend.c \
	agent/descend.h \
	agent/events.c \
	agent/events.h \
	agent/execreq.c \
	agent/execreq.h \
	agent/filename.c \
	agent/filename.h \
	agent/filepath.c \
	agent/files.c \
	agent/files.h \
	agent/files_int.h \
	agent/host.c \
	agent/host.h \
	agent/hostcheck.c \
	agent/hostcheck.h \
	agent/landlock.c \
	agent/landlock.h \
	agent/leftover.c \
	agent/leftover.h \
	agent/ns.c \
	agent/ns.h \
	agent/portscan.c \
	agent/portscan.h \
	agent/proc.c \
	agent/proc.h \
	agent/proc_int.h \
	agent/procio.c \
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
	agent/spawn.c \
	agent/spawn.h \
	agent/uidkill.c \
	agent/uidkill.h \
	agent/uidpool.c \
	agent/uidpool.h \
	agent/upload.c \
	agent/work.c \
	agent/work.h

sbin_PROGRAMS += sbx-agent
sbx_agent_SOURCES = agent/main.c
sbx_agent_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) -lpthread
