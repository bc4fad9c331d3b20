/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Podflare API over HTTP, below /podflare/v1. Who may not use a sandbox is
 * told what is told of one that does not exist.
 */
#ifndef SBX_GATEWAY_PODAPI_H
#define SBX_GATEWAY_PODAPI_H

struct api;
struct podapi;
struct podflare;

/* Adds the routes. Both are borrowed; requests under way end with api. */
struct podapi *podapi_new(struct api *a, struct podflare *p);
void podapi_free(struct podapi *pa); /* after the api; NULL is fine */

#endif
