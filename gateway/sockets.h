/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening sockets. The master opens them and keeps them open over
 * reloads and the death of workers, so that what waits in their queues is
 * served by whoever comes next. A TCP address has one socket for each worker
 * (SO_REUSEPORT), a unix path one that all share.
 */
#ifndef SBX_GATEWAY_SOCKETS_H
#define SBX_GATEWAY_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/gwconf.h"

struct sockets;

/* reuseport: more than one process will accept. */
struct sockets *sockets_new(bool reuseport);
void sockets_free(struct sockets *s); /* closes, removes unix files */

/* Opens what conf wants and is not open yet, for n workers. Nothing that was
 * open before is touched, also on failure (*msg: malloc'ed). */
int sockets_open(struct sockets *s, const struct gw_conf *conf, unsigned n,
		 char **msg) SBX_MUST_CHECK;
/* Closes what conf does not want any more. */
void sockets_prune(struct sockets *s, const struct gw_conf *conf);

/* Calls fn with each descriptor of the listener that worker `index` of n
 * accepts from. Surplus sockets (n became smaller) are dealt out too. */
void sockets_each(struct sockets *s, const struct gw_listen *l, unsigned index,
		  unsigned n, void (*fn)(int fd, void *arg), void *arg);
/* "https://127.0.0.1:8443": the address with the port that was chosen. */
void sockets_text(struct sockets *s, const struct gw_listen *l,
		  struct strbuf *out);

#endif
