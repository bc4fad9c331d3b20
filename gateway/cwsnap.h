/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a sandbox's volume, of what it wrote when it has none. */
#ifndef SBX_GATEWAY_CWSNAP_H
#define SBX_GATEWAY_CWSNAP_H

#include "gateway/cwcall.h"

struct job;
struct job_words;

void cwsnap_create(struct cwcall *c);
void cwsnap_get(struct cwcall *c);
void cwsnap_list(struct cwcall *c);
void cwsnap_delete(struct cwcall *c);

/* Of DeleteSandbox with snapshot_volumes: ends j, with a snapshot of each of
 * them, whose ids are added to *ids. False: the call has failed. */
bool cwsnap_stop(struct cwcall *c, const struct job *j, uint64_t grace_ms,
		 struct job_words *ids);

#endif
