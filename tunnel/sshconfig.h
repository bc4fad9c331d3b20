/* SPDX-License-Identifier: Apache-2.0 */
/* Files in ssh_config(5)'s form. */
#ifndef SBX_TUNNEL_SSHCONFIG_H
#define SBX_TUNNEL_SSHCONFIG_H

#include "base/defs.h"
#include "base/str.h"
#include "tunnel/options.h"

/* Applies the lines of text that are for o->host. Match and Include are not
 * done (E_INVALID). *why: "file line N: reason", malloc'ed. */
int sshconfig_apply(const char *file, struct strv text, struct options *o,
		    char **why) SBX_MUST_CHECK;
/* Adds each host that is named in full on a Host line. */
void sshconfig_hosts(struct strv text, struct options_list *out);

#endif
