/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's HTTP API: routes, tokens, and what a request becomes. It is
 * transport only: what it does is in host.h, run.h and files.h.
 */
#ifndef SBX_AGENT_API_H
#define SBX_AGENT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct baseenv;
struct host;
struct httpd;
struct loop;
struct portscan_own;
struct sandbox;
struct work;

struct api_options {
	struct loop *loop;
	struct work *work;
	struct host *host;    /* host mode, or */
	struct sandbox *root; /* dedicated mode */
	struct baseenv *base; /* of all commands; PUT /v1/env writes it */
	const char *token;    /* NULL: everything is open */
	/* The agent's own listeners; read at each use. Dedicated mode. */
	const struct portscan_own *own;
};

struct api *api_new(const struct api_options *o);
/* Its server's connections must have ended. */
void api_free(struct api *a);
struct httpd *api_httpd(struct api *a);
/* Ends the upgraded connections. */
void api_tunnels_close(struct api *a);
/* No request is in progress, and no background process runs. */
bool api_idle(const struct api *a);
uint64_t api_active_ms(const struct api *a); /* loop time of the last end */

#endif
