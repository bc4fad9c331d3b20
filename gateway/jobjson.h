/* SPDX-License-Identifier: Apache-2.0 */
/* A job as the Hub's API shows it, and its steps as our event stream does. */
#ifndef SBX_GATEWAY_JOBJSON_H
#define SBX_GATEWAY_JOBJSON_H

#include "base/str.h"
#include "gateway/job.h"

struct gw_conf;

/* origin: "https://host:port", as the client reached us; empty: unknown, and
 * no URLs are given. No values of secrets, whatever j holds. */
void jobjson_add(struct strbuf *b, const struct job *j,
		 const struct gw_conf *conf, struct strv origin);
void jobjson_add_step(struct strbuf *b, struct strv id, const char *ns,
		      const struct job_step *st);
/* `,"name":value`; NULL and 0 are null. */
void jobjson_add_text(struct strbuf *b, const char *name, const char *value);
void jobjson_add_time(struct strbuf *b, const char *name, int64_t ms);
/* The address of a port of a job; nothing when origin is empty. */
void jobjson_add_url(struct strbuf *b, const struct gw_conf *conf,
		     struct strv origin, const char *id, unsigned port);
void jobjson_add_hardware(struct strbuf *b, const struct gw_conf *conf);

#endif
