# SPDX-License-Identifier: Apache-2.0
# Everything but main.c is a convenience library, so that unit tests link it.
noinst_LIBRARIES += libgateway.a
LIBGATEWAY = libgateway.a
libgateway_a_SOURCES = \
	gateway/accesslog.c \
	gateway/accesslog.h \
	gateway/admin.c \
	gateway/admin.h \
	gateway/agentctl.c \
	gateway/agentctl.h \
	gateway/auth.c \
	gateway/auth.h \
	gateway/broker.c \
	gateway/broker.h \
	gateway/certs.c \
	gateway/certs.h \
	gateway/connector.c \
	gateway/connector.h \
	gateway/cores.c \
	gateway/cores.h \
	gateway/crew.c \
	gateway/crew.h \
	gateway/crew_int.h \
	gateway/crewchild.c \
	gateway/crewchild.h \
	gateway/crewstats.c \
	gateway/dispatch.c \
	gateway/door.c \
	gateway/door.h \
	gateway/errpage.c \
	gateway/errpage.h \
	gateway/exchange.c \
	gateway/exchange.h \
	gateway/exchange_int.h \
	gateway/forwarded.c \
	gateway/forwarded.h \
	gateway/gwcheck.c \
	gateway/gwconf.c \
	gateway/gwconf.h \
	gateway/gwconf_sec.h \
	gateway/gwdump.c \
	gateway/gwspec.c \
	gateway/hub.c \
	gateway/hub.h \
	gateway/hub_origin.c \
	gateway/hub_user.c \
	gateway/job.c \
	gateway/job.h \
	gateway/jobspec.c \
	gateway/jobspec.h \
	gateway/jobstore.c \
	gateway/jobstore.h \
	gateway/jobstore_int.h \
	gateway/jobstore_read.c \
	gateway/launch.c \
	gateway/launch.h \
	gateway/limits.c \
	gateway/limits.h \
	gateway/master.c \
	gateway/master.h \
	gateway/notify.c \
	gateway/notify.h \
	gateway/options.c \
	gateway/options.h \
	gateway/owner.c \
	gateway/owner.h \
	gateway/prepare.c \
	gateway/prepare.h \
	gateway/proxy.c \
	gateway/proxy_head.c \
	gateway/rewrite.c \
	gateway/rewrite.h \
	gateway/route.c \
	gateway/route.h \
	gateway/route_match.c \
	gateway/sockets.c \
	gateway/sockets.h \
	gateway/state.c \
	gateway/state.h \
	gateway/statmsg.c \
	gateway/statmsg.h \
	gateway/stats.h \
	gateway/tlskeys.c \
	gateway/tlskeys.h \
	gateway/tokencmd.c \
	gateway/tokencmd.h \
	gateway/tokens.c \
	gateway/tokens.h \
	gateway/tunnel.c \
	gateway/watch.c \
	gateway/watch.h \
	gateway/worker.c \
	gateway/worker.h \
	gateway/wsframe.c \
	gateway/wsframe.h

sbin_PROGRAMS += sbx-gateway
sbx_gateway_SOURCES = gateway/main.c
sbx_gateway_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(CJSON_LIBS) $(SQLITE_LIBS)
