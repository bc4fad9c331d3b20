/* SPDX-License-Identifier: Apache-2.0 */
/* Where the passphrase of a key comes from: a file, or the terminal. */
#ifndef SBX_TUNNEL_PASSPHRASE_H
#define SBX_TUNNEL_PASSPHRASE_H

#include "base/defs.h"

struct options;

/* For the key in key_path; *out is freed with mem_free_secret(). E_DENIED:
 * there is nobody to ask. */
int passphrase_get(const struct options *o, const char *key_path,
		   char **out) SBX_MUST_CHECK;

#endif
