/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks the control plane, as a worker says it: four fields that are taken
 * out of whatever clients send and written by the worker that authenticated
 * them (PROTOCOL.md, section 6).
 */
#ifndef SBX_GATEWAY_APIWHO_H
#define SBX_GATEWAY_APIWHO_H

#include <stdbool.h>

#include "base/defs.h"
#include "base/str.h"

struct http_head;

#define API_NS_MAX 64 /* namespaces of one user */

enum api_role {
	API_NOBODY,   /* no credential */
	API_READONLY, /* may read in its namespaces */
	API_USER,     /* may do everything in its namespaces */
	API_ADMIN,    /* may do everything everywhere */
	API_OPERATOR  /* the same: the gateway's owner */
};

/* Views into the request's head. */
struct api_who {
	enum api_role role;
	struct strv name;           /* empty for API_NOBODY */
	struct strv ns[API_NS_MAX]; /* the first is the default one */
	unsigned nns;               /* 0 only for API_NOBODY */
	struct strv origin;         /* "https://host:port", as the client
				     * reached us; empty: not known */
};

/* E_INVALID: not what a worker writes. */
int apiwho_parse(const struct http_head *h, struct api_who *out) SBX_MUST_CHECK;

/* Whether it is one of its namespaces, or all are open to it. */
bool api_may_read(const struct api_who *who, struct strv ns);
bool api_may_write(const struct api_who *who, struct strv ns);

#endif
