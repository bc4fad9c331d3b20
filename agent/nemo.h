/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exec server of NeMo Evaluator's sandboxes, spoken beside the agent's own
 * API: whole commands and whole files as JSON, without a token, for clients
 * that reach it through a tunnel. doc/PROTOCOL.md says what it answers.
 */
#ifndef SBX_AGENT_NEMO_H
#define SBX_AGENT_NEMO_H

#include <stdbool.h>
#include <stdint.h>

struct httpd;
struct loop;
struct nemo;
struct sandbox;
struct work;

struct nemo_options {
	struct loop *loop;
	struct work *work;
	struct sandbox *root; /* where commands run */
};

struct nemo *nemo_new(const struct nemo_options *o);
/* Its server's connections and its work must have ended. NULL is fine. */
void nemo_free(struct nemo *n);
struct httpd *nemo_httpd(struct nemo *n);
bool nemo_idle(const struct nemo *n);
uint64_t nemo_active_ms(const struct nemo *n); /* loop time of the last end */

#endif
