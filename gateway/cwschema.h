/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of coreweave.sandbox.v1: names, numbers and types. Templates'
 * overrides are left out: that method is not there.
 */
#ifndef SBX_GATEWAY_CWSCHEMA_H
#define SBX_GATEWAY_CWSCHEMA_H

#include "gateway/cwmsg.h"

/* Numbers of enums that the service looks at; those of State are enum
 * job_state's. */
enum { CW_PROTOCOL_TCP = 1 };
enum { CW_ENDPOINT_HTTPS = 1, CW_ENDPOINT_TLS_PASSTHROUGH = 2 };
enum { CW_AUTH_OPEN = 1, CW_AUTH_TOKEN = 2 };
enum { CW_VISIBILITY_PUBLIC = 1, CW_VISIBILITY_PRIVATE = 2 };
enum { CW_STREAM_STDOUT = 1, CW_STREAM_STDERR = 2 };

extern const struct cwmsg_enum cwschema_sandbox_mode;
extern const struct cwmsg_enum cwschema_state;
extern const struct cwmsg_enum cwschema_service_protocol;
extern const struct cwmsg_enum cwschema_endpoint_kind;
extern const struct cwmsg_enum cwschema_endpoint_auth;
extern const struct cwmsg_enum cwschema_visibility;
extern const struct cwmsg_enum cwschema_tenant_scope;
extern const struct cwmsg_enum cwschema_storage_medium;
extern const struct cwmsg_enum cwschema_object_storage_permission;
extern const struct cwmsg_enum cwschema_snapshot_state;
extern const struct cwmsg_enum cwschema_snapshot_trigger;
extern const struct cwmsg_enum cwschema_stream;

extern const struct cwmsg_desc cwschema_gpu;
extern const struct cwmsg_desc cwschema_resources;
extern const struct cwmsg_desc cwschema_file_mount;
extern const struct cwmsg_desc cwschema_volume_mount;
extern const struct cwmsg_desc cwschema_secret_mapping;
extern const struct cwmsg_desc cwschema_secret_store_reference;
extern const struct cwmsg_desc cwschema_resource_requirements;
extern const struct cwmsg_desc cwschema_security_context;
extern const struct cwmsg_desc cwschema_secret_source;
extern const struct cwmsg_desc cwschema_image_pull_credentials;
extern const struct cwmsg_desc cwschema_container;
extern const struct cwmsg_desc cwschema_scratch_volume;
extern const struct cwmsg_desc cwschema_sandbox_volume;
extern const struct cwmsg_desc cwschema_endpoint_spec;
extern const struct cwmsg_desc cwschema_service;
extern const struct cwmsg_desc cwschema_object_storage_access;
extern const struct cwmsg_desc cwschema_cidr_block;
extern const struct cwmsg_desc cwschema_port_range;
extern const struct cwmsg_desc cwschema_ingress_rule;
extern const struct cwmsg_desc cwschema_selector_block;
extern const struct cwmsg_desc cwschema_egress_rule;
extern const struct cwmsg_desc cwschema_network_options;
extern const struct cwmsg_desc cwschema_sandbox_spec;
extern const struct cwmsg_desc cwschema_endpoint_status;
extern const struct cwmsg_desc cwschema_service_status;
extern const struct cwmsg_desc cwschema_resource_usage;
extern const struct cwmsg_desc cwschema_container_status;
extern const struct cwmsg_desc cwschema_sandbox_status;
extern const struct cwmsg_desc cwschema_sandbox;
extern const struct cwmsg_desc cwschema_create_sandbox_request;
extern const struct cwmsg_desc cwschema_create_sandbox_from_template_request;
extern const struct cwmsg_desc cwschema_get_sandbox_request;
extern const struct cwmsg_desc cwschema_list_sandboxes_request;
extern const struct cwmsg_desc cwschema_list_sandboxes_response;
extern const struct cwmsg_desc cwschema_delete_sandbox_request;
extern const struct cwmsg_desc cwschema_delete_sandbox_response;
extern const struct cwmsg_desc cwschema_purge_sandboxes_request;
extern const struct cwmsg_desc cwschema_purge_sandboxes_response;
extern const struct cwmsg_desc cwschema_exec_request;
extern const struct cwmsg_desc cwschema_exec_response;
extern const struct cwmsg_desc cwschema_exec_stream_init;
extern const struct cwmsg_desc cwschema_exec_stream_resize;
extern const struct cwmsg_desc cwschema_exec_stream_close;
extern const struct cwmsg_desc cwschema_exec_stream_request;
extern const struct cwmsg_desc cwschema_exec_stream_ready;
extern const struct cwmsg_desc cwschema_exec_stream_output;
extern const struct cwmsg_desc cwschema_exec_stream_exit;
extern const struct cwmsg_desc cwschema_exec_stream_error;
extern const struct cwmsg_desc cwschema_exec_stream_response;
extern const struct cwmsg_desc cwschema_stream_logs_request;
extern const struct cwmsg_desc cwschema_log_stream_error;
extern const struct cwmsg_desc cwschema_log_entry;
extern const struct cwmsg_desc cwschema_write_file_request;
extern const struct cwmsg_desc cwschema_write_file_response;
extern const struct cwmsg_desc cwschema_read_file_request;
extern const struct cwmsg_desc cwschema_read_file_response;
extern const struct cwmsg_desc cwschema_file_system_snapshot;
extern const struct cwmsg_desc cwschema_create_file_system_snapshot_request;
extern const struct cwmsg_desc cwschema_get_file_system_snapshot_request;
extern const struct cwmsg_desc cwschema_list_file_system_snapshots_request;
extern const struct cwmsg_desc cwschema_list_file_system_snapshots_response;
extern const struct cwmsg_desc cwschema_delete_file_system_snapshot_request;

#endif
