/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox is, as it is asked for and as it stands. */
#include "config.h"

#include "gateway/cwschema.h"

#include <stddef.h>

#include "base/defs.h"
#include "gateway/cwschema_def.h"

/* clang-format off */
static const struct cwmsg_word sandbox_mode_words[] = {
    {"SANDBOX_MODE_UNSPECIFIED", 0},
    {"SANDBOX_MODE_SERVERLESS", 1},
    {"SANDBOX_MODE_CKS", 2},
};
ENUM(sandbox_mode);

static const struct cwmsg_word state_words[] = {
    {"STATE_UNSPECIFIED", 0},
    {"STATE_CREATING", 1},
    {"STATE_RUNNING", 2},
    {"STATE_COMPLETED", 3},
    {"STATE_FAILED", 4},
    {"STATE_TERMINATING", 5},
    {"STATE_TERMINATED", 6},
    {"STATE_PENDING", 7},
    {"STATE_PAUSED", 8},
};
ENUM(state);

static const struct cwmsg_word service_protocol_words[] = {
    {"SERVICE_PROTOCOL_UNSPECIFIED", 0},
    {"SERVICE_PROTOCOL_TCP", 1},
    {"SERVICE_PROTOCOL_UDP", 2},
    {"SERVICE_PROTOCOL_SCTP", 3},
};
ENUM(service_protocol);

static const struct cwmsg_word endpoint_kind_words[] = {
    {"ENDPOINT_KIND_UNSPECIFIED", 0},
    {"ENDPOINT_KIND_HTTPS", 1},
    {"ENDPOINT_KIND_TLS_PASSTHROUGH", 2},
};
ENUM(endpoint_kind);

static const struct cwmsg_word endpoint_auth_words[] = {
    {"ENDPOINT_AUTH_UNSPECIFIED", 0},
    {"ENDPOINT_AUTH_OPEN", 1},
    {"ENDPOINT_AUTH_TOKEN", 2},
};
ENUM(endpoint_auth);

static const struct cwmsg_word visibility_words[] = {
    {"VISIBILITY_UNSPECIFIED", 0},
    {"VISIBILITY_PUBLIC", 1},
    {"VISIBILITY_PRIVATE", 2},
    {"VISIBILITY_CUSTOM", 3},
};
ENUM(visibility);

static const struct cwmsg_word tenant_scope_words[] = {
    {"TENANT_SCOPE_UNSPECIFIED", 0},
    {"TENANT_SCOPE_SAME_USER", 1},
    {"TENANT_SCOPE_SAME_ORG", 2},
    {"TENANT_SCOPE_SANDBOX_NETWORK", 3},
};
ENUM(tenant_scope);

static const struct cwmsg_word storage_medium_words[] = {
    {"STORAGE_MEDIUM_UNSPECIFIED", 0},
    {"STORAGE_MEDIUM_DISK", 1},
    {"STORAGE_MEDIUM_MEMORY", 2},
};
ENUM(storage_medium);

static const struct cwmsg_word object_storage_permission_words[] = {
    {"OBJECT_STORAGE_PERMISSION_UNSPECIFIED", 0},
    {"OBJECT_STORAGE_PERMISSION_READ", 1},
    {"OBJECT_STORAGE_PERMISSION_READ_WRITE", 2},
};
ENUM(object_storage_permission);

static const struct cwmsg_field gpu_fields[] = {
    F(1, "count", INT64),
    ONE(2, "type", STRING),
    ONE(3, "memory_gb", INT64),
};
DESC(gpu, "Gpu");

static const struct cwmsg_field resources_fields[] = {
    F(1, "cpu", STRING),
    F(2, "memory", STRING),
    MSG(3, "gpu", gpu),
};
DESC(resources, "Resources");

static const struct cwmsg_field file_mount_fields[] = {
    F(1, "path", STRING),
    F(2, "content", BYTES),
};
DESC(file_mount, "FileMount");

static const struct cwmsg_field volume_mount_fields[] = {
    F(1, "volume", STRING),
    F(2, "mount_path", STRING),
    F(3, "read_only", BOOL),
    F(4, "sub_path", STRING),
};
DESC(volume_mount, "VolumeMount");

static const struct cwmsg_field secret_mapping_fields[] = {
    F(1, "path", STRING),
    F(2, "field", STRING),
    F(3, "env_var", STRING),
};
DESC(secret_mapping, "SecretMapping");

static const struct cwmsg_field secret_store_reference_fields[] = {
    F(1, "store_name", STRING),
    REP_MSG(2, "secrets", secret_mapping),
};
DESC(secret_store_reference, "SecretStoreReference");

static const struct cwmsg_field resource_requirements_fields[] = {
    MSG(1, "requests", resources),
    MSG(2, "limits", resources),
};
DESC(resource_requirements, "ResourceRequirements");

static const struct cwmsg_field security_context_fields[] = {
    OPT(1, "run_as_user", UINT32),
    OPT(2, "run_as_group", UINT32),
    OPT(3, "privileged", BOOL),
    OPT(4, "allow_privilege_escalation", BOOL),
    OPT(5, "read_only_root_filesystem", BOOL),
    REP(6, "capabilities_add", STRING),
    REP(7, "capabilities_drop", STRING),
    F(8, "seccomp_profile", STRING),
};
DESC(security_context, "SecurityContext");

static const struct cwmsg_field secret_source_fields[] = {
    F(1, "store_name", STRING),
    F(2, "path", STRING),
    F(3, "field", STRING),
};
DESC(secret_source, "SecretSource");

static const struct cwmsg_field image_pull_credentials_fields[] = {
    F(1, "registry", STRING),
    MSG(2, "credentials", secret_source),
};
DESC(image_pull_credentials, "ImagePullCredentials");

static const struct cwmsg_field container_fields[] = {
    F(1, "name", STRING),
    F(2, "image", STRING),
    F(3, "command", STRING),
    REP(4, "args", STRING),
    MAP(5, "environment_variables"),
    MSG(6, "resources", resources),
    REP_MSG(7, "files", file_mount),
    REP_MSG(8, "volume_mounts", volume_mount),
    REP_MSG(9, "secret_stores", secret_store_reference),
    F(10, "working_dir", STRING),
    MSG(11, "resource_requirements", resource_requirements),
    MSG(12, "security_context", security_context),
    MSG(13, "image_pull_credentials", image_pull_credentials),
};
DESC(container, "Container");

static const struct cwmsg_field scratch_volume_fields[] = {
    F(1, "size", STRING),
    WORD(2, "medium", storage_medium),
    F(3, "restore_from_snapshot_id", STRING),
};
DESC(scratch_volume, "ScratchVolume");

static const struct cwmsg_field sandbox_volume_fields[] = {
    F(1, "name", STRING),
    ONE_MSG(2, "scratch", scratch_volume),
    ONE(3, "volume_id", STRING),
};
DESC(sandbox_volume, "SandboxVolume");

static const struct cwmsg_field endpoint_spec_fields[] = {
    WORD(1, "kind", endpoint_kind),
    WORD(2, "auth", endpoint_auth),
};
DESC(endpoint_spec, "EndpointSpec");

static const struct cwmsg_field service_fields[] = {
    F(1, "port", INT32),
    F(2, "name", STRING),
    WORD(3, "protocol", service_protocol),
    WORD(4, "visibility", visibility),
    MSG(5, "endpoint", endpoint_spec),
};
DESC(service, "Service");

static const struct cwmsg_field object_storage_access_fields[] = {
    REP(1, "buckets", STRING),
    WORD(2, "permission", object_storage_permission),
    F(3, "object_prefix", STRING),
};
DESC(object_storage_access, "ObjectStorageAccess");

static const struct cwmsg_field cidr_block_fields[] = {
    F(1, "cidr", STRING),
    REP(2, "except", STRING),
};
DESC(cidr_block, "CidrBlock");

static const struct cwmsg_field port_range_fields[] = {
    F(1, "protocol", STRING),
    F(2, "port", INT32),
    F(3, "end_port", INT32),
};
DESC(port_range, "PortRange");

static const struct cwmsg_field ingress_rule_fields[] = {
    ONE_MSG(1, "cidr", cidr_block),
    ONE_ENUM(2, "tenant", tenant_scope),
    ONE(3, "any", BOOL),
    REP_MSG(4, "ports", port_range),
};
DESC(ingress_rule, "IngressRule");

static const struct cwmsg_field selector_block_fields[] = {
    MAP(1, "pod_labels"),
    MAP(2, "namespace_labels"),
};
DESC(selector_block, "SelectorBlock");

static const struct cwmsg_field egress_rule_fields[] = {
    ONE_MSG(1, "cidr", cidr_block),
    ONE(2, "dns_name", STRING),
    ONE_ENUM(3, "tenant", tenant_scope),
    ONE(4, "any", BOOL),
    ONE_MSG(6, "selector", selector_block),
    REP_MSG(5, "ports", port_range),
};
DESC(egress_rule, "EgressRule");

static const struct cwmsg_field network_options_fields[] = {
    REP_MSG(1, "ingress", ingress_rule),
    REP_MSG(2, "egress", egress_rule),
    OPT(3, "deny_egress", BOOL),
    OPT(4, "deny_ingress", BOOL),
};
DESC(network_options, "NetworkOptions");

static const struct cwmsg_field sandbox_spec_fields[] = {
    REP_MSG(1, "containers", container),
    F(2, "primary_container", STRING),
    REP_MSG(3, "volumes", sandbox_volume),
    REP_MSG(4, "services", service),
    F(5, "max_lifetime_seconds", INT32),
    REP(6, "network_ids", STRING),
    MSG(7, "object_storage_access", object_storage_access),
    REP(8, "tags", STRING),
    REP(9, "runner_ids", STRING),
    MSG(10, "network", network_options),
    MAP(11, "annotations"),
    REP_MSG(12, "init_containers", container),
    F(13, "instance_type", STRING),
    WORD(14, "mode", sandbox_mode),
    F(15, "runtime_class", STRING),
};
DESC(sandbox_spec, "SandboxSpec");

static const struct cwmsg_field endpoint_status_fields[] = {
    WORD(1, "kind", endpoint_kind),
    WORD(2, "auth", endpoint_auth),
    F(3, "url", STRING),
};
DESC(endpoint_status, "EndpointStatus");

static const struct cwmsg_field service_status_fields[] = {
    F(1, "port", INT32),
    F(2, "name", STRING),
    WORD(3, "protocol", service_protocol),
    WORD(4, "visibility", visibility),
    MSG(5, "endpoint", endpoint_status),
    F(6, "url", STRING),
};
DESC(service_status, "ServiceStatus");

static const struct cwmsg_field resource_usage_fields[] = {
    F(1, "cpu_millicores", INT64),
    F(2, "memory_mb", INT64),
    F(3, "gpu_count", INT64),
};
DESC(resource_usage, "ResourceUsage");

static const struct cwmsg_field container_status_fields[] = {
    F(1, "name", STRING),
    WORD(2, "state", state),
    F(3, "exit_code", INT32),
    F(4, "restart_count", INT32),
};
DESC(container_status, "ContainerStatus");

static const struct cwmsg_field sandbox_status_fields[] = {
    WORD(1, "state", state),
    F(2, "state_reason", STRING),
    F(3, "create_time", TIME),
    F(4, "start_time", TIME),
    F(5, "end_time", TIME),
    REP_MSG(6, "services", service_status),
    MSG(8, "resource_usage", resource_usage),
    OPT(9, "exit_code", INT32),
    MSG(10, "effective_resources", resources),
    F(11, "effective_max_lifetime_seconds", INT32),
    REP_MSG(12, "container_statuses", container_status),
    F(13, "runner_id", STRING),
    F(14, "runner_group_id", STRING),
    REP_MSG(15, "effective_ingress", ingress_rule),
    REP_MSG(16, "effective_egress", egress_rule),
    MSG(17, "effective_resource_requirements", resource_requirements),
    REP(18, "attached_volume_ids", STRING),
    F(19, "effective_runtime_class", STRING),
};
DESC(sandbox_status, "SandboxStatus");

static const struct cwmsg_field sandbox_fields[] = {
    F(1, "sandbox_id", STRING),
    MSG(2, "spec", sandbox_spec),
    MSG(3, "status", sandbox_status),
    F(4, "source_template_id", STRING),
    F(5, "source_template_revision", INT64),
};
DESC(sandbox, "Sandbox");
/* clang-format on */
