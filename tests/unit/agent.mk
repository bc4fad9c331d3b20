# SPDX-License-Identifier: Apache-2.0

check_PROGRAMS += tests/unit/test_sockdir
TESTS += tests/unit/test_sockdir
tests_unit_test_sockdir_SOURCES = tests/unit/test_sockdir.c
tests_unit_test_sockdir_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_sockdir_LDADD = $(NET_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_events
TESTS += tests/unit/test_events
tests_unit_test_events_SOURCES = tests/unit/test_events.c
tests_unit_test_events_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_events_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_filename
TESTS += tests/unit/test_filename
tests_unit_test_filename_SOURCES = tests/unit/test_filename.c
tests_unit_test_filename_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_filename_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_jobend
TESTS += tests/unit/test_jobend
tests_unit_test_jobend_SOURCES = tests/unit/test_jobend.c
tests_unit_test_jobend_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_jobend_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_landlock
TESTS += tests/unit/test_landlock
tests_unit_test_landlock_SOURCES = tests/unit/test_landlock.c
tests_unit_test_landlock_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_landlock_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_proc
TESTS += tests/unit/test_proc
tests_unit_test_proc_SOURCES = tests/unit/test_proc.c
tests_unit_test_proc_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_proc_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_ring
TESTS += tests/unit/test_ring
tests_unit_test_ring_SOURCES = tests/unit/test_ring.c
tests_unit_test_ring_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_ring_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_joblog
TESTS += tests/unit/test_joblog
tests_unit_test_joblog_SOURCES = tests/unit/test_joblog.c
tests_unit_test_joblog_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_joblog_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_rmtree
TESTS += tests/unit/test_rmtree
tests_unit_test_rmtree_SOURCES = tests/unit/test_rmtree.c
tests_unit_test_rmtree_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_rmtree_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_uidpool
TESTS += tests/unit/test_uidpool
tests_unit_test_uidpool_SOURCES = tests/unit/test_uidpool.c
tests_unit_test_uidpool_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_uidpool_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_portscan
TESTS += tests/unit/test_portscan
tests_unit_test_portscan_SOURCES = tests/unit/test_portscan.c
tests_unit_test_portscan_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_portscan_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_work
TESTS += tests/unit/test_work
tests_unit_test_work_SOURCES = tests/unit/test_work.c
tests_unit_test_work_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_work_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_cgroup
TESTS += tests/unit/test_cgroup
tests_unit_test_cgroup_SOURCES = tests/unit/test_cgroup.c
tests_unit_test_cgroup_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cgroup_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_nemo
TESTS += tests/unit/test_nemo
tests_unit_test_nemo_SOURCES = tests/unit/test_nemo.c
tests_unit_test_nemo_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_nemo_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_seccomp
TESTS += tests/unit/test_seccomp
tests_unit_test_seccomp_SOURCES = tests/unit/test_seccomp.c
tests_unit_test_seccomp_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_seccomp_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_execreq
TESTS += tests/unit/test_execreq
tests_unit_test_execreq_SOURCES = tests/unit/test_execreq.c
tests_unit_test_execreq_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_execreq_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_agentconf
TESTS += tests/unit/test_agentconf
tests_unit_test_agentconf_SOURCES = tests/unit/test_agentconf.c
tests_unit_test_agentconf_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_agentconf_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_frames
TESTS += tests/unit/test_frames
tests_unit_test_frames_SOURCES = tests/unit/test_frames.c \
	tests/unit/net_help.c tests/unit/net_help.h \
	tests/unit/fault_io.c tests/unit/fault_io.h
tests_unit_test_frames_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_frames_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread $(CMOCKA_LIBS)
