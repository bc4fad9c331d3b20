/* SPDX-License-Identifier: Apache-2.0 */
/* A file as the body of an answer: a piece at a time while the worker takes it,
 * never the whole in memory. */
#ifndef SBX_GATEWAY_APIFILE_H
#define SBX_GATEWAY_APIFILE_H

#include <stdint.h>

#include "gateway/api.h"

struct apifile;

/* Takes fd, and closes it with the exchange; closed(arg) is called then, unless
 * it is NULL. No callbacks of the exchange may be set besides. It lives as long
 * as the exchange. */
struct apifile *apifile_new(struct api_req *r, int fd,
			    void (*closed)(void *arg), void *arg);
/* After httpd_end_head(): so many bytes from there, none to HEAD. A file that
 * has become shorter is an answer that is visibly cut short. */
void apifile_send(struct apifile *f, uint64_t at, uint64_t len);

#endif
