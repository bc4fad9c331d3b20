# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/unit/test_accesslog
TESTS += tests/unit/test_accesslog
tests_unit_test_accesslog_SOURCES = tests/unit/test_accesslog.c
tests_unit_test_accesslog_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_accesslog_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_agentcall
TESTS += tests/unit/test_agentcall
tests_unit_test_agentcall_SOURCES = tests/unit/test_agentcall.c $(NET_HELP)
tests_unit_test_agentcall_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_agentcall_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_api
TESTS += tests/unit/test_api
tests_unit_test_api_SOURCES = tests/unit/test_api.c $(NET_HELP)
tests_unit_test_api_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_api_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_apiwho
TESTS += tests/unit/test_apiwho
tests_unit_test_apiwho_SOURCES = tests/unit/test_apiwho.c
tests_unit_test_apiwho_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_apiwho_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_auth
TESTS += tests/unit/test_auth
tests_unit_test_auth_SOURCES = tests/unit/test_auth.c
tests_unit_test_auth_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_auth_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_cwcut
TESTS += tests/unit/test_cwcut
tests_unit_test_cwcut_SOURCES = tests/unit/test_cwcut.c
tests_unit_test_cwcut_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cwcut_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_cwmsg
TESTS += tests/unit/test_cwmsg
tests_unit_test_cwmsg_SOURCES = tests/unit/test_cwmsg.c
tests_unit_test_cwmsg_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cwmsg_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_errpage
TESTS += tests/unit/test_errpage
tests_unit_test_errpage_SOURCES = tests/unit/test_errpage.c
tests_unit_test_errpage_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_errpage_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_forwarded
TESTS += tests/unit/test_forwarded
tests_unit_test_forwarded_SOURCES = tests/unit/test_forwarded.c
tests_unit_test_forwarded_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_forwarded_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_gwconf
TESTS += tests/unit/test_gwconf
tests_unit_test_gwconf_SOURCES = tests/unit/test_gwconf.c
tests_unit_test_gwconf_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_gwconf_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_gwman
TESTS += tests/unit/test_gwman
tests_unit_test_gwman_SOURCES = tests/unit/test_gwman.c
tests_unit_test_gwman_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_gwman_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_hub
TESTS += tests/unit/test_hub
tests_unit_test_hub_SOURCES = tests/unit/test_hub.c
tests_unit_test_hub_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_hub_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_job
TESTS += tests/unit/test_job
tests_unit_test_job_SOURCES = tests/unit/test_job.c
tests_unit_test_job_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_job_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_logtail
TESTS += tests/unit/test_logtail
tests_unit_test_logtail_SOURCES = tests/unit/test_logtail.c
tests_unit_test_logtail_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_logtail_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_jobjson
TESTS += tests/unit/test_jobjson
tests_unit_test_jobjson_SOURCES = tests/unit/test_jobjson.c
tests_unit_test_jobjson_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_jobjson_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_jobs
TESTS += tests/unit/test_jobs
tests_unit_test_jobs_SOURCES = tests/unit/test_jobs.c
tests_unit_test_jobs_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_jobs_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS) $(SQLITE_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_jobstore
TESTS += tests/unit/test_jobstore
tests_unit_test_jobstore_SOURCES = tests/unit/test_jobstore.c
tests_unit_test_jobstore_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_jobstore_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS) $(SQLITE_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_launch
TESTS += tests/unit/test_launch
tests_unit_test_launch_SOURCES = tests/unit/test_launch.c
tests_unit_test_launch_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_launch_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_limits
TESTS += tests/unit/test_limits
tests_unit_test_limits_SOURCES = tests/unit/test_limits.c
tests_unit_test_limits_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_limits_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_outside
TESTS += tests/unit/test_outside
tests_unit_test_outside_SOURCES = tests/unit/test_outside.c
tests_unit_test_outside_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_outside_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_owner
TESTS += tests/unit/test_owner
tests_unit_test_owner_SOURCES = tests/unit/test_owner.c
tests_unit_test_owner_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_owner_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_readme
TESTS += tests/unit/test_readme
tests_unit_test_readme_SOURCES = tests/unit/test_readme.c
tests_unit_test_readme_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_readme_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_remotestat
TESTS += tests/unit/test_remotestat
tests_unit_test_remotestat_SOURCES = tests/unit/test_remotestat.c
tests_unit_test_remotestat_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_remotestat_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_rewrite
TESTS += tests/unit/test_rewrite
tests_unit_test_rewrite_SOURCES = tests/unit/test_rewrite.c
tests_unit_test_rewrite_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_rewrite_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_route
TESTS += tests/unit/test_route
tests_unit_test_route_SOURCES = tests/unit/test_route.c
tests_unit_test_route_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_route_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_sockets
TESTS += tests/unit/test_sockets
tests_unit_test_sockets_SOURCES = tests/unit/test_sockets.c
tests_unit_test_sockets_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_sockets_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_statmsg
TESTS += tests/unit/test_statmsg
tests_unit_test_statmsg_SOURCES = tests/unit/test_statmsg.c
tests_unit_test_statmsg_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_statmsg_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_template
TESTS += tests/unit/test_template
tests_unit_test_template_SOURCES = tests/unit/test_template.c
tests_unit_test_template_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_template_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(CJSON_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_tlskeys
TESTS += tests/unit/test_tlskeys
tests_unit_test_tlskeys_SOURCES = tests/unit/test_tlskeys.c
tests_unit_test_tlskeys_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_tlskeys_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_tokens
TESTS += tests/unit/test_tokens
tests_unit_test_tokens_SOURCES = tests/unit/test_tokens.c
tests_unit_test_tokens_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_tokens_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_watch
TESTS += tests/unit/test_watch
tests_unit_test_watch_SOURCES = tests/unit/test_watch.c $(NET_HELP)
tests_unit_test_watch_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_watch_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_wsframe
TESTS += tests/unit/test_wsframe
tests_unit_test_wsframe_SOURCES = tests/unit/test_wsframe.c
tests_unit_test_wsframe_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_wsframe_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_podlines
TESTS += tests/unit/test_podlines
tests_unit_test_podlines_SOURCES = tests/unit/test_podlines.c
tests_unit_test_podlines_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_podlines_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS) \
	$(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_snaptar
TESTS += tests/unit/test_snaptar
tests_unit_test_snaptar_SOURCES = tests/unit/test_snaptar.c
tests_unit_test_snaptar_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_snaptar_LDADD = $(LIBGATEWAY) $(NETTLS_LIBS) $(ARCHIVE_LIBS) $(CMOCKA_LIBS)
