/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of the CoreWeave service that run commands in a sandbox. */
#ifndef SBX_GATEWAY_CWEXEC_H
#define SBX_GATEWAY_CWEXEC_H

struct cwcall;

void cwexec_unary(struct cwcall *c);  /* Exec */
void cwexec_stream(struct cwcall *c); /* StreamExec */

#endif
