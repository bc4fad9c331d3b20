/* SPDX-License-Identifier: Apache-2.0 */
/* The fault-injecting stream layer; see fault_io.h. */
#include "config.h"

#include "tests/unit/fault_io.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/stream.h"

struct fault {
	struct fault_script s;
	const struct stream_io *io; /* below */
	void *ctx;
	unsigned reads;
	unsigned writes;
};

static unsigned
fault_roll(struct fault *f, unsigned below)
{
	f->s.seed = f->s.seed * 1664525U + 1013904223U;
	return (f->s.seed >> 8) % below;
}

static ssize_t
fault_read(void *ctx, void *p, size_t n, bool *more)
{
	struct fault *f = ctx;
	bool cut = false;
	ssize_t r;

	if (!*more)
		return E_AGAIN;
	f->reads++;
	if (f->s.read_reset != 0 && f->reads >= f->s.read_reset)
		return E_PEER;
	if (fault_roll(f, 100) < f->s.again_pct) {
		*more = false;
		return E_AGAIN; /* level-triggered: it will be asked again */
	}
	if (n > 1 && fault_roll(f, 100) < f->s.short_pct) {
		n = 1 + fault_roll(f, n < 64 ? (unsigned)n : 64);
		cut = true;
	}
	r = f->io->read(f->ctx, p, n, more);
	if (r > 0 && cut)
		*more = fault_roll(f, 2) == 0;
	return r;
}

static ssize_t
fault_writev(void *ctx, const struct iovec *iov, int n)
{
	struct fault *f = ctx;
	struct iovec one;

	f->writes++;
	if (f->s.write_reset != 0 && f->writes >= f->s.write_reset)
		return E_PEER;
	if (fault_roll(f, 100) < f->s.again_pct)
		return E_AGAIN;
	if (fault_roll(f, 100) < f->s.short_pct) {
		one = iov[0];
		one.iov_len = 1 + fault_roll(f, (unsigned)one.iov_len);
		return f->io->writev(f->ctx, &one, 1);
	}
	return f->io->writev(f->ctx, iov, n);
}

static int
fault_shutdown(void *ctx)
{
	struct fault *f = ctx;

	if (fault_roll(f, 100) < f->s.again_pct)
		return E_AGAIN;
	return f->io->shutdown(f->ctx);
}

static void
fault_free(void *ctx)
{
	struct fault *f = ctx;

	if (f->io->free != NULL)
		f->io->free(f->ctx);
	free(f);
}

static const struct stream_io fault_io = {
    .read = fault_read,
    .writev = fault_writev,
    .shutdown = fault_shutdown,
    .free = fault_free,
};

void
fault_put(struct stream *st, const struct fault_script *s)
{
	struct fault *f = xcalloc(1, sizeof(*f));

	f->s = *s;
	f->io = stream_take_io(st, &f->ctx);
	stream_set_io(st, &fault_io, f);
}

void
fault_put_mix(struct stream *st, uint32_t seed)
{
	struct fault_script s = {
	    .seed = seed, .short_pct = 40, .again_pct = 30};

	fault_put(st, &s);
}
