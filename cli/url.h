/* SPDX-License-Identifier: Apache-2.0 */
/* A URL in two parts: where, and the path that everything is below. */
#ifndef SBX_CLI_URL_H
#define SBX_CLI_URL_H

#include "base/defs.h"
#include "base/str.h"

struct url {
	char *origin; /* "https://host:port" */
	char *path;   /* "" or "/below", without a slash at its end */
};

/* http and https only; E_INVALID. */
int url_parse(const char *text, struct url *out) SBX_MUST_CHECK;
void url_clear(struct url *u);
/* Adds v percent-encoded as one segment of a path (or value of a query). */
void url_encode(struct strbuf *b, struct strv v);

#endif
