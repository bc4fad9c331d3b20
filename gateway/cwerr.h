/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a call of the CoreWeave service ended: a code of gRPC, a text, and the
 * details that its clients look at (google.rpc.ErrorInfo, BadRequest and
 * RetryInfo), which every transport writes in its own way.
 */
#ifndef SBX_GATEWAY_CWERR_H
#define SBX_GATEWAY_CWERR_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum cwerr_code {
	CW_OK = 0,
	CW_CANCELLED = 1,
	CW_UNKNOWN = 2,
	CW_INVALID_ARGUMENT = 3,
	CW_DEADLINE_EXCEEDED = 4,
	CW_NOT_FOUND = 5,
	CW_ALREADY_EXISTS = 6,
	CW_PERMISSION_DENIED = 7,
	CW_RESOURCE_EXHAUSTED = 8,
	CW_FAILED_PRECONDITION = 9,
	CW_ABORTED = 10,
	CW_OUT_OF_RANGE = 11,
	CW_UNIMPLEMENTED = 12,
	CW_INTERNAL = 13,
	CW_UNAVAILABLE = 14,
	CW_DATA_LOSS = 15,
	CW_UNAUTHENTICATED = 16
};

#define CWERR_DOMAIN "cwsandbox.com"

/* Of ErrorInfo.reason. */
#define CWERR_SANDBOX_NOT_FOUND   "CWSANDBOX_SANDBOX_NOT_FOUND"
#define CWERR_INVALID_REQUEST     "CWSANDBOX_INVALID_REQUEST"
#define CWERR_CAPACITY            "CWSANDBOX_RUNNER_CAPACITY_EXHAUSTED"
#define CWERR_RUNNER_UNAVAILABLE  "CWSANDBOX_RUNNER_UNAVAILABLE"
#define CWERR_BACKEND_UNAVAILABLE "CWSANDBOX_BACKEND_UNAVAILABLE"
#define CWERR_COMMAND_TIMEOUT     "CWSANDBOX_COMMAND_TIMEOUT"
#define CWERR_FILE_NOT_FOUND      "CWSANDBOX_FILE_NOT_FOUND"
#define CWERR_FILE_IS_DIRECTORY   "CWSANDBOX_FILE_IS_DIRECTORY"
#define CWERR_FILE_IO_FAILED      "CWSANDBOX_FILE_IO_FAILED"
#define CWERR_FILE_PERMISSION     "CWSANDBOX_FILE_PERMISSION_DENIED"
#define CWERR_FILE_TOO_LARGE      "CWSANDBOX_FILE_TOO_LARGE"
#define CWERR_FSS_NOT_FOUND       "CWSANDBOX_FSS_NOT_FOUND"
#define CWERR_FSS_NOT_READY       "CWSANDBOX_FSS_NOT_READY"
#define CWERR_FSS_NOT_SUPPORTED   "CWSANDBOX_FSS_NOT_SUPPORTED"
#define CWERR_FSS_QUOTA           "CWSANDBOX_FSS_QUOTA_EXCEEDED"
#define CWERR_FSS_CREATE_FAILED   "CWSANDBOX_FSS_CREATE_FAILED"

#define CWERR_META_MAX 4

struct cwerr {
	enum cwerr_code code;
	const char *message; /* for people; NULL: none */
	const char *reason;  /* NULL: no ErrorInfo */
	struct {
		const char *key, *value;
	} meta[CWERR_META_MAX]; /* of ErrorInfo; key NULL: no more */
	struct strv field;      /* BadRequest: which field (the description
				 * is the message); p NULL: none */
	uint64_t retry_ms;      /* RetryInfo; 0: none */
};

const char *cwerr_word(enum cwerr_code code); /* "not_found" */
/* The HTTP status of an answer that has no other place for the code. */
unsigned cwerr_http(enum cwerr_code code);
/* {"code":"…","message":"…","details":[…]}, as the Connect protocol writes an
 * error. */
void cwerr_add_json(const struct cwerr *e, struct strbuf *b);

#endif
