/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tunnel: connects, keeps its forwards up, reconnects for ever, and says
 * how it is.
 */
#ifndef SBX_TUNNEL_TUNNEL_H
#define SBX_TUNNEL_TUNNEL_H

struct loop;
struct options;
struct status;
struct tunnel;

/* o and st are borrowed. */
struct tunnel *tunnel_new(struct loop *l, const struct options *o,
			  struct status *st);
void tunnel_start(struct tunnel *t);
/* Says goodbye and stops the loop. */
void tunnel_stop(struct tunnel *t);
/* What the program exits with, once the loop has ended. */
int tunnel_exit_code(const struct tunnel *t);
void tunnel_free(struct tunnel *t);

#endif
