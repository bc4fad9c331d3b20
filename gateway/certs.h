/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of the listeners: which files they come from, and the
 * self-signed one that is made when none is configured.
 */
#ifndef SBX_GATEWAY_CERTS_H
#define SBX_GATEWAY_CERTS_H

#include "base/defs.h"
#include "gateway/gwconf.h"

struct tlsctx;

/* Makes STATE_DIR/tls.crt and tls.key (0600) if a listener needs them and
 * they are not there. *made, when not NULL: they were made now. */
int certs_ensure(const struct gw_conf *conf, bool *made,
		 char **msg) SBX_MUST_CHECK;
/* A context for an https listener. */
int certs_load(const struct gw_conf *conf, const struct gw_listen *l,
	       struct tlsctx **out, char **msg) SBX_MUST_CHECK;
/* Reads and checks every configured one (for -t); a self-signed one that is
 * still to be made is no error. */
int certs_check(const struct gw_conf *conf, char **msg) SBX_MUST_CHECK;
/* Calls fn with every file that is used. */
void certs_each_file(const struct gw_conf *conf,
		     void (*fn)(const char *path, void *arg), void *arg);

#endif
