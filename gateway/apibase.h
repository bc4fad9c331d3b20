/* SPDX-License-Identifier: Apache-2.0 */
/* What every client of the Hub's API asks first: who am I, and what the
 * programs are called that may act for me. */
#ifndef SBX_GATEWAY_APIBASE_H
#define SBX_GATEWAY_APIBASE_H

struct api;

void apibase_add(struct api *a);

#endif
