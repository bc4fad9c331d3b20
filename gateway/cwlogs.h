/* SPDX-License-Identifier: Apache-2.0 */
/* StreamLogs of the CoreWeave service. */
#ifndef SBX_GATEWAY_CWLOGS_H
#define SBX_GATEWAY_CWLOGS_H

struct cwcall;

void cwlogs_stream(struct cwcall *c);

#endif
