/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers: directories beneath LAYER_DIR for what forked contexts write (see
 * views.py), each above the one of the context that was forked. One is removed
 * when neither an interpreter nor a layer above it uses it any more.
 */
#ifndef SBX_AGENT_LAYER_H
#define SBX_AGENT_LAYER_H

#include <stdbool.h>

#include "agent/jobroot.h"

struct layer;
struct work_lane;

/* On the job's own disk; contexts of dedicated mode do not use the rest. */
#define LAYER_NAME ".layers"
#define LAYER_DIR  JOBROOT_HOMES "/" LAYER_NAME

/* There is a place for layers; it is made. False outside of a job. fresh: none
 * was made yet, so what is there is of an earlier job, whose file system was
 * kept; it goes. */
bool layer_place(struct work_lane *lane, bool fresh);
/* The one of that name, which its user makes. below is held. lane: where the
 * removal takes place. */
struct layer *layer_new(struct work_lane *lane, unsigned id,
			struct layer *below);
void layer_release(struct layer *l); /* NULL is fine */

#endif
