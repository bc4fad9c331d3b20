# SPDX-License-Identifier: Apache-2.0
# Each fuzz target is one file, fuzz_<name>.c, with LLVMFuzzerTestOneInput
# (fuzz.h). It is always linked with replay.c to replay_<name>, which `make
# check` runs over the files of tests/fuzz/corpus/<name>/; with --enable-fuzz
# it is linked with libFuzzer too, to fuzz_<name>:
#
#     ../configure CC=clang --enable-fuzz --enable-sanitize=address,undefined
#     make tests/fuzz/fuzz_conf
#     mkdir new && tests/fuzz/fuzz_conf -max_total_time=60 new \
#         ../tests/fuzz/corpus/conf
#
# http1.dict and chunk.dict help (-dict=). What it finds worth keeping goes into the corpus with -merge=1.
FUZZ_LINK = $(AM_LDFLAGS) -fsanitize=fuzzer
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/http1.dict tests/fuzz/chunk.dict

check_PROGRAMS += tests/fuzz/replay_conf
TESTS += tests/fuzz/replay_conf
tests_fuzz_replay_conf_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_conf.c \
	tests/fuzz/replay.c
tests_fuzz_replay_conf_LDADD = $(LIBBASE)

check_PROGRAMS += tests/fuzz/replay_json
TESTS += tests/fuzz/replay_json
tests_fuzz_replay_json_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_json.c \
	tests/fuzz/replay.c
tests_fuzz_replay_json_LDADD = $(LIBBASE) $(CJSON_LIBS)

check_PROGRAMS += tests/fuzz/replay_chunk
TESTS += tests/fuzz/replay_chunk
tests_fuzz_replay_chunk_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_chunk.c \
	tests/fuzz/replay.c
tests_fuzz_replay_chunk_LDADD = $(NET_LIBS)

check_PROGRAMS += tests/fuzz/replay_http1_request
TESTS += tests/fuzz/replay_http1_request
tests_fuzz_replay_http1_request_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_http1_request.c \
	tests/fuzz/replay.c \
	tests/unit/http1_diff.c tests/unit/http1_diff.h
tests_fuzz_replay_http1_request_LDADD = $(NET_LIBS)

check_PROGRAMS += tests/fuzz/replay_http1_response
TESTS += tests/fuzz/replay_http1_response
tests_fuzz_replay_http1_response_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_http1_response.c \
	tests/fuzz/replay.c \
	tests/unit/http1_diff.c tests/unit/http1_diff.h
tests_fuzz_replay_http1_response_LDADD = $(NET_LIBS)

check_PROGRAMS += tests/fuzz/replay_route
TESTS += tests/fuzz/replay_route
tests_fuzz_replay_route_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_route.c \
	tests/fuzz/replay.c
tests_fuzz_replay_route_LDADD = $(LIBGATEWAY) $(LIBBASE)

check_PROGRAMS += tests/fuzz/replay_spec
TESTS += tests/fuzz/replay_spec
tests_fuzz_replay_spec_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_spec.c \
	tests/fuzz/replay.c
tests_fuzz_replay_spec_LDADD = $(LIBTUNNEL) $(LIBBASE)

check_PROGRAMS += tests/fuzz/replay_frames
TESTS += tests/fuzz/replay_frames
tests_fuzz_replay_frames_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_frames.c \
	tests/fuzz/replay.c
tests_fuzz_replay_frames_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread

check_PROGRAMS += tests/fuzz/replay_cwcut
TESTS += tests/fuzz/replay_cwcut
tests_fuzz_replay_cwcut_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_cwcut.c \
	tests/fuzz/replay.c
tests_fuzz_replay_cwcut_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS)

check_PROGRAMS += tests/fuzz/replay_execwire
TESTS += tests/fuzz/replay_execwire
tests_fuzz_replay_execwire_SOURCES = tests/fuzz/fuzz.h \
	tests/fuzz/fuzz_execwire.c tests/fuzz/replay.c
tests_fuzz_replay_execwire_LDADD = $(NET_LIBS)

check_PROGRAMS += tests/fuzz/replay_execreq
TESTS += tests/fuzz/replay_execreq
tests_fuzz_replay_execreq_SOURCES = tests/fuzz/fuzz.h \
	tests/fuzz/fuzz_execreq.c tests/fuzz/replay.c
tests_fuzz_replay_execreq_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread

check_PROGRAMS += tests/fuzz/replay_job
TESTS += tests/fuzz/replay_job
tests_fuzz_replay_job_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_job.c \
	tests/fuzz/replay.c
tests_fuzz_replay_job_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS)

check_PROGRAMS += tests/fuzz/replay_cwmsg
TESTS += tests/fuzz/replay_cwmsg
tests_fuzz_replay_cwmsg_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_cwmsg.c \
	tests/fuzz/replay.c
tests_fuzz_replay_cwmsg_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS)

if ENABLE_FUZZ
noinst_PROGRAMS += tests/fuzz/fuzz_cwmsg
tests_fuzz_fuzz_cwmsg_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_cwmsg.c
tests_fuzz_fuzz_cwmsg_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_cwmsg_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_job
tests_fuzz_fuzz_job_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_job.c
tests_fuzz_fuzz_job_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_job_LDADD = $(LIBGATEWAY) $(LIBBASE) $(CJSON_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_cwcut
tests_fuzz_fuzz_cwcut_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_cwcut.c
tests_fuzz_fuzz_cwcut_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_cwcut_LDADD = $(LIBGATEWAY) $(NET_LIBS) $(CJSON_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_execwire
tests_fuzz_fuzz_execwire_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_execwire.c
tests_fuzz_fuzz_execwire_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_execwire_LDADD = $(NET_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_execreq
tests_fuzz_fuzz_execreq_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_execreq.c
tests_fuzz_fuzz_execreq_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_execreq_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) -lpthread

noinst_PROGRAMS += tests/fuzz/fuzz_spec
tests_fuzz_fuzz_spec_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_spec.c
tests_fuzz_fuzz_spec_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_spec_LDADD = $(LIBTUNNEL) $(LIBBASE)

noinst_PROGRAMS += tests/fuzz/fuzz_conf
tests_fuzz_fuzz_conf_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_conf.c
tests_fuzz_fuzz_conf_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_conf_LDADD = $(LIBBASE)

noinst_PROGRAMS += tests/fuzz/fuzz_json
tests_fuzz_fuzz_json_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_json.c
tests_fuzz_fuzz_json_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_json_LDADD = $(LIBBASE) $(CJSON_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_chunk
tests_fuzz_fuzz_chunk_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_chunk.c
tests_fuzz_fuzz_chunk_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_chunk_LDADD = $(NET_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_http1_request
tests_fuzz_fuzz_http1_request_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_http1_request.c \
	tests/unit/http1_diff.c tests/unit/http1_diff.h
tests_fuzz_fuzz_http1_request_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_http1_request_LDADD = $(NET_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_http1_response
tests_fuzz_fuzz_http1_response_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_http1_response.c \
	tests/unit/http1_diff.c tests/unit/http1_diff.h
tests_fuzz_fuzz_http1_response_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_http1_response_LDADD = $(NET_LIBS)

noinst_PROGRAMS += tests/fuzz/fuzz_frames
tests_fuzz_fuzz_frames_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_frames.c
tests_fuzz_fuzz_frames_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_frames_LDADD = $(LIBAGENT) $(NET_LIBS) $(CJSON_LIBS) \
	-lpthread

noinst_PROGRAMS += tests/fuzz/fuzz_route
tests_fuzz_fuzz_route_SOURCES = tests/fuzz/fuzz.h tests/fuzz/fuzz_route.c
tests_fuzz_fuzz_route_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_route_LDADD = $(LIBGATEWAY) $(LIBBASE)
endif
