/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, responses and what streams are made of. */
#include "config.h"

#include "gateway/cwschema.h"

#include <stddef.h>

#include "base/defs.h"
#include "gateway/cwschema_def.h"

/* clang-format off */
static const struct cwmsg_word snapshot_state_words[] = {
    {"SNAPSHOT_STATE_UNSPECIFIED", 0},
    {"SNAPSHOT_STATE_CREATING", 1},
    {"SNAPSHOT_STATE_READY", 2},
    {"SNAPSHOT_STATE_FAILED", 3},
    {"SNAPSHOT_STATE_DELETING", 4},
};
ENUM(snapshot_state);

static const struct cwmsg_word snapshot_trigger_words[] = {
    {"SNAPSHOT_TRIGGER_UNSPECIFIED", 0},
    {"SNAPSHOT_TRIGGER_MANUAL", 1},
    {"SNAPSHOT_TRIGGER_ON_DELETE", 2},
};
ENUM(snapshot_trigger);

static const struct cwmsg_word stream_words[] = {
    {"STREAM_UNSPECIFIED", 0},
    {"STREAM_STDOUT", 1},
    {"STREAM_STDERR", 2},
};
ENUM(stream);

static const struct cwmsg_field create_sandbox_request_fields[] = {
    MSG(1, "sandbox", sandbox),
    F(2, "request_id", STRING),
};
DESC(create_sandbox_request, "CreateSandboxRequest");

static const struct cwmsg_field create_sandbox_from_template_request_fields[] = {
    F(1, "template_id", STRING),
    F(3, "request_id", STRING),
};
DESC(create_sandbox_from_template_request, "CreateSandboxFromTemplateRequest");

static const struct cwmsg_field get_sandbox_request_fields[] = {
    F(1, "sandbox_id", STRING),
};
DESC(get_sandbox_request, "GetSandboxRequest");

static const struct cwmsg_field list_sandboxes_request_fields[] = {
    F(1, "page_size", INT32),
    F(2, "page_token", STRING),
    REP(3, "tags", STRING),
    WORD(4, "state", state),
    F(5, "show_terminated", BOOL),
    REP(6, "runner_ids", STRING),
    REP(7, "volume_ids", STRING),
};
DESC(list_sandboxes_request, "ListSandboxesRequest");

static const struct cwmsg_field list_sandboxes_response_fields[] = {
    REP_MSG(1, "sandboxes", sandbox),
    F(2, "next_page_token", STRING),
};
DESC(list_sandboxes_response, "ListSandboxesResponse");

static const struct cwmsg_field delete_sandbox_request_fields[] = {
    F(1, "sandbox_id", STRING),
    F(2, "grace_period_seconds", INT32),
    REP(3, "snapshot_volumes", STRING),
    F(4, "request_id", STRING),
    F(5, "allow_missing", BOOL),
};
DESC(delete_sandbox_request, "DeleteSandboxRequest");

static const struct cwmsg_field delete_sandbox_response_fields[] = {
    MSG(1, "sandbox", sandbox),
    REP(2, "file_system_snapshot_ids", STRING),
};
DESC(delete_sandbox_response, "DeleteSandboxResponse");

static const struct cwmsg_field purge_sandboxes_request_fields[] = {
    REP(1, "tags", STRING),
    F(2, "dry_run", BOOL),
    F(3, "request_id", STRING),
    F(4, "purge_all", BOOL),
};
DESC(purge_sandboxes_request, "PurgeSandboxesRequest");

static const struct cwmsg_field purge_sandboxes_response_fields[] = {
    F(1, "purge_count", INT32),
    REP(2, "failed_sandbox_ids", STRING),
    REP(3, "retryable_failed_sandbox_ids", STRING),
};
DESC(purge_sandboxes_response, "PurgeSandboxesResponse");

static const struct cwmsg_field exec_request_fields[] = {
    F(1, "sandbox_id", STRING),
    REP(2, "command", STRING),
    MAP(3, "env"),
    F(4, "max_output_bytes", INT32),
    F(5, "container", STRING),
};
DESC(exec_request, "ExecRequest");

static const struct cwmsg_field exec_response_fields[] = {
    F(1, "stdout", BYTES),
    F(2, "stderr", BYTES),
    F(3, "exit_code", INT32),
    F(4, "stdout_truncated", BOOL),
    F(5, "stderr_truncated", BOOL),
    F(6, "stdout_bytes_produced", INT64),
    F(7, "stderr_bytes_produced", INT64),
};
DESC(exec_response, "ExecResponse");

static const struct cwmsg_field exec_stream_init_fields[] = {
    F(1, "sandbox_id", STRING),
    REP(2, "command", STRING),
    F(3, "tty", BOOL),
    F(4, "tty_width", UINT32),
    F(5, "tty_height", UINT32),
    MAP(6, "env"),
    F(7, "container", STRING),
};
DESC(exec_stream_init, "ExecStreamInit");

static const struct cwmsg_field exec_stream_resize_fields[] = {
    F(1, "width", UINT32),
    F(2, "height", UINT32),
};
DESC(exec_stream_resize, "ExecStreamResize");

EMPTY(exec_stream_close, "ExecStreamClose");

static const struct cwmsg_field exec_stream_request_fields[] = {
    ONE_MSG(1, "init", exec_stream_init),
    ONE(2, "stdin", BYTES),
    ONE_MSG(3, "resize", exec_stream_resize),
    ONE_MSG(4, "close", exec_stream_close),
};
DESC(exec_stream_request, "ExecStreamRequest");

static const struct cwmsg_field exec_stream_ready_fields[] = {
    F(1, "ready_time", TIME),
};
DESC(exec_stream_ready, "ExecStreamReady");

static const struct cwmsg_field exec_stream_output_fields[] = {
    WORD(1, "stream", stream),
    F(2, "data", BYTES),
};
DESC(exec_stream_output, "ExecStreamOutput");

static const struct cwmsg_field exec_stream_exit_fields[] = {
    F(1, "exit_code", INT32),
    F(2, "completed_time", TIME),
};
DESC(exec_stream_exit, "ExecStreamExit");

static const struct cwmsg_field exec_stream_error_fields[] = {
    F(1, "message", STRING),
    F(2, "code", STRING),
};
DESC(exec_stream_error, "ExecStreamError");

static const struct cwmsg_field exec_stream_response_fields[] = {
    ONE_MSG(1, "ready", exec_stream_ready),
    ONE_MSG(2, "output", exec_stream_output),
    ONE_MSG(3, "exit", exec_stream_exit),
    ONE_MSG(4, "error", exec_stream_error),
};
DESC(exec_stream_response, "ExecStreamResponse");

static const struct cwmsg_field stream_logs_request_fields[] = {
    F(1, "sandbox_id", STRING),
    F(2, "follow", BOOL),
    F(3, "tail_lines", INT32),
    F(4, "since_time", TIME),
    F(5, "container", STRING),
    F(6, "timestamps", BOOL),
    F(7, "resume_log_session_id", STRING),
    F(8, "resume_log_offset", UINT64),
};
DESC(stream_logs_request, "StreamLogsRequest");

static const struct cwmsg_field log_stream_error_fields[] = {
    F(1, "message", STRING),
    F(2, "code", STRING),
};
DESC(log_stream_error, "LogStreamError");

static const struct cwmsg_field log_entry_fields[] = {
    F(1, "data", BYTES),
    F(2, "timestamp", TIME),
    F(3, "log_session_id", STRING),
    F(4, "next_log_offset", UINT64),
    MSG(5, "error", log_stream_error),
};
DESC(log_entry, "LogEntry");

static const struct cwmsg_field write_file_request_fields[] = {
    F(1, "sandbox_id", STRING),
    F(2, "path", STRING),
    F(3, "content", BYTES),
    F(4, "container", STRING),
};
DESC(write_file_request, "WriteFileRequest");

EMPTY(write_file_response, "WriteFileResponse");

static const struct cwmsg_field read_file_request_fields[] = {
    F(1, "sandbox_id", STRING),
    F(2, "path", STRING),
    F(3, "container", STRING),
};
DESC(read_file_request, "ReadFileRequest");

static const struct cwmsg_field read_file_response_fields[] = {
    F(1, "content", BYTES),
};
DESC(read_file_response, "ReadFileResponse");

static const struct cwmsg_field file_system_snapshot_fields[] = {
    F(1, "file_system_snapshot_id", STRING),
    WORD(2, "state", snapshot_state),
    F(3, "state_reason", STRING),
    F(4, "size_bytes", INT64),
    F(5, "source_sandbox_id", STRING),
    WORD(6, "trigger", snapshot_trigger),
    F(7, "create_time", TIME),
    F(8, "complete_time", TIME),
    F(9, "source_volume_name", STRING),
    F(10, "object_bucket", STRING),
    F(11, "updated_at", TIME),
    F(12, "request_id", STRING),
};
DESC(file_system_snapshot, "FileSystemSnapshot");

static const struct cwmsg_field create_file_system_snapshot_request_fields[] = {
    F(1, "sandbox_id", STRING),
    F(2, "request_id", STRING),
    F(3, "scratch_volume_name", STRING),
};
DESC(create_file_system_snapshot_request, "CreateFileSystemSnapshotRequest");

static const struct cwmsg_field get_file_system_snapshot_request_fields[] = {
    F(1, "file_system_snapshot_id", STRING),
};
DESC(get_file_system_snapshot_request, "GetFileSystemSnapshotRequest");

static const struct cwmsg_field list_file_system_snapshots_request_fields[] = {
    F(1, "page_size", INT32),
    F(2, "page_token", STRING),
    F(3, "source_sandbox_id", STRING),
};
DESC(list_file_system_snapshots_request, "ListFileSystemSnapshotsRequest");

static const struct cwmsg_field list_file_system_snapshots_response_fields[] = {
    REP_MSG(1, "file_system_snapshots", file_system_snapshot),
    F(2, "next_page_token", STRING),
};
DESC(list_file_system_snapshots_response, "ListFileSystemSnapshotsResponse");

static const struct cwmsg_field delete_file_system_snapshot_request_fields[] = {
    F(1, "file_system_snapshot_id", STRING),
    F(2, "allow_missing", BOOL),
};
DESC(delete_file_system_snapshot_request, "DeleteFileSystemSnapshotRequest");
/* clang-format on */
