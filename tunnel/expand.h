/* SPDX-License-Identifier: Apache-2.0 */
/* Who we are, and file names with ~ and tokens. */
#ifndef SBX_TUNNEL_EXPAND_H
#define SBX_TUNNEL_EXPAND_H

struct options;

/* The name of the user we are, malloc'ed; NULL: no account. */
char *expand_own_name(void);
/* ~ and the tokens %d %h %n %p %r %u %%; malloc'ed. */
char *expand_path(const struct options *o, const char *s);

#endif
