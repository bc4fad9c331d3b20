/* SPDX-License-Identifier: Apache-2.0 */
/* Connects an accepted channel to its target on our side. */
#ifndef SBX_TUNNEL_REACH_H
#define SBX_TUNNEL_REACH_H

struct chan;
struct loop;
struct reach_list;
struct spec_end;

struct reach_list *reach_list_new(struct loop *l);
/* Gives up what is under way (their channels are gone by then, or refused). */
void reach_list_free(struct reach_list *rl);
/* Resolves and dials target, then attaches the channel, or refuses it. */
void reach_start(struct reach_list *rl, const struct spec_end *target,
		 struct chan *c);

#endif
