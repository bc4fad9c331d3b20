/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. */
#include "config.h"

#include "gateway/apifile.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/fdio.h"

#define PIECE 65536

struct apifile {
	struct httpd_req *rq;
	bool head_only;
	int fd;
	uint64_t at, left;
	void (*closed)(void *arg);
	void *arg;
};

static void
send_more(struct apifile *f)
{
	char piece[PIECE];
	ssize_t n;

	while (f->left > 0 && !httpd_over_high(f->rq)) {
		n = pread(f->fd, piece,
			  f->left < PIECE ? (size_t)f->left : PIECE,
			  (off_t)f->at);
		if (n <= 0) {
			httpd_abort(f->rq);
			return;
		}
		httpd_write(f->rq, piece, (size_t)n);
		f->at += (uint64_t)n;
		f->left -= (uint64_t)n;
	}
	if (f->left == 0)
		httpd_end(f->rq);
	else
		httpd_flush(f->rq);
}

static void
drained_cb(struct httpd_req *rq, void *arg)
{
	struct apifile *f = arg;

	(void)rq;
	if (f->left > 0)
		send_more(f);
}

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct apifile *f = arg;

	(void)rq;
	(void)err;
	fd_close(&f->fd);
	if (f->closed != NULL)
		f->closed(f->arg);
}

struct apifile *
apifile_new(struct api_req *r, int fd, void (*closed)(void *arg), void *arg)
{
	static const struct httpd_req_cbs cbs = {.drained = drained_cb,
						 .closed = closed_cb};
	struct apifile *f = httpd_alloc(r->rq, sizeof(*f));

	*f = (struct apifile){.rq = r->rq,
			      .head_only = r->head->method == M_HEAD,
			      .fd = fd,
			      .closed = closed,
			      .arg = arg};
	httpd_set_cbs(r->rq, &cbs, f);
	return f;
}

void
apifile_send(struct apifile *f, uint64_t at, uint64_t len)
{
	f->at = at;
	f->left = f->head_only ? 0 : len;
	send_more(f);
}
