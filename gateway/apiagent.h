/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /buckets/huggingface/sbx-server/resolve/sbx-server: the agent as one
 * file that runs in any image, for jobs that fetch it when they start. Nobody
 * needs a credential for it.
 */
#ifndef SBX_GATEWAY_APIAGENT_H
#define SBX_GATEWAY_APIAGENT_H

struct api;

struct apiagent {
	/* The configured file, asked for each request; NULL: sbx-agent-static
	 * beside our own program, else where it is installed. */
	const char *(*path)(void *arg);
	void *arg;
};

void apiagent_add(struct api *a, struct apiagent *o); /* o is borrowed */

#endif
