/* SPDX-License-Identifier: Apache-2.0 */
/* The base environment; see the header. */
#include "config.h"

#include "agent/baseenv.h"

#include <stddef.h>

#include "agent/execreq.h"

void
baseenv_take(struct baseenv *b, char **v)
{
	baseenv_clear(b);
	b->v = v;
}

void
baseenv_clear(struct baseenv *b)
{
	execreq_env_free(b->v);
	b->v = NULL;
}
