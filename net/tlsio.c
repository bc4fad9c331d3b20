/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS under a stream. OpenSSL reaches the descriptor through a BIO of ours on
 * the layer below, which never reports failure into OpenSSL: a read finds
 * bytes or "not now" (an end or an error is kept in struct tlsio and returned
 * by the stream function instead, so that a peer which merely closed its
 * direction can still be answered), and a write always succeeds, what the
 * descriptor did not take waiting in `wq`. Plaintext counts as written only
 * once its ciphertext left wq: until then its owner still holds it.
 */
#include "config.h"

#include "net/tlsio.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/tlsctx_int.h"

#define TLS_IOV_MAX 8
/* Ciphertext gathered for one write below when there is much to send. */
#define TLS_CORK_MAX 65536

struct tlsio {
	SSL *ssl;
	struct tlsctx *ctx;
	const struct stream_io *low;
	void *low_ctx;
	struct bufq rq; /* ciphertext read ahead, moved out of the way */
	struct bufq wq; /* ciphertext that must still go out */
	size_t unacked; /* plaintext bytes whose ciphertext is in wq */
	int low_err;    /* E_EOF or an error that the layer below gave */
	int wr_err;     /* the same, of writing */
	bool drained;   /* the layer below holds nothing more for now */
	bool corked;    /* keep ciphertext in wq, flushed by tls_writev */
	bool eof_clean;
	bool failed;   /* OpenSSL gave up: no close_notify after this */
	bool started;  /* the handshake has made its first step */
	bool done;     /* handshake */
	bool notified; /* close_notify was made */
	const char *why;
};

/* --- the BIO ----------------------------------------------------------- */

/* Ciphertext of io in the context's read-ahead buffer. */
static size_t
tls_ahead_len(const struct tlsio *io)
{
	const struct tls_ahead *a = tlsctx_ahead(io->ctx);

	return a->owner == io ? a->len : 0;
}

/* Makes the read-ahead buffer io's; what another one had left there moves to
 * its own queue. */
static struct tls_ahead *
tls_ahead_take(struct tlsio *io)
{
	struct tls_ahead *a = tlsctx_ahead(io->ctx);

	if (a->owner != NULL && a->owner != io && a->len > 0)
		bufq_add(&a->owner->rq, a->data + a->off, a->len);
	a->owner = io;
	a->off = 0;
	a->len = 0;
	return a;
}

/* Ciphertext that was read and that OpenSSL has not taken yet. */
static size_t
tls_held(const struct tlsio *io)
{
	return io->rq.len + tls_ahead_len(io);
}

static size_t
tls_take_held(struct tlsio *io, char *p, size_t n)
{
	struct tls_ahead *a;

	if (io->rq.len > 0) {
		n = bufq_copy_out(&io->rq, p, n);
		bufq_drain(&io->rq, n);
		return n;
	}
	a = tlsctx_ahead(io->ctx);
	if (n > a->len)
		n = a->len;
	memcpy(p, a->data + a->off, n);
	a->off += n;
	a->len -= n;
	return n;
}

/* Reads as much as there is into the (empty) read-ahead buffer. */
static void
tls_read_ahead(struct tlsio *io)
{
	struct tls_ahead *a = tls_ahead_take(io);
	bool more = true;
	ssize_t r;

	r = io->low->read(io->low_ctx, a->data, sizeof(a->data), &more);
	io->drained = !more || r == E_AGAIN;
	if (r > 0)
		a->len = (size_t)r;
	else if (r != E_AGAIN)
		io->low_err = (int)r;
}

static int
tls_bio_read(BIO *b, char *p, int n)
{
	struct tlsio *io = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (tls_held(io) == 0 && !io->drained && io->low_err == 0)
		tls_read_ahead(io);
	if (tls_held(io) > 0)
		return (int)tls_take_held(io, p, (size_t)n);
	BIO_set_retry_read(b);
	return -1;
}

/* Sends what waits. False while something still does (or it failed). */
static bool
tls_flush(struct tlsio *io)
{
	struct iovec iov[TLS_IOV_MAX];
	size_t total;
	ssize_t r;
	int n;

	while (io->wq.len > 0) {
		n = bufq_iovec(&io->wq, iov, TLS_IOV_MAX, &total);
		r = io->low->writev(io->low_ctx, iov, n);
		if (r < 0 && r != E_AGAIN) {
			io->wr_err = (int)r;
			bufq_clear(&io->wq);
			return false;
		}
		if (r < 0)
			return false;
		bufq_drain(&io->wq, (size_t)r);
		if ((size_t)r < total)
			return false;
	}
	return io->wr_err == 0;
}

static int
tls_bio_write(BIO *b, const char *p, int n)
{
	struct tlsio *io = BIO_get_data(b);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p,
			    .iov_len = (size_t)n};
	ssize_t r = 0;

	BIO_clear_retry_flags(b);
	if (io->wr_err != 0)
		return n; /* to nowhere; tls_writev reports it */
	if (!io->corked && io->wq.len == 0) {
		r = io->low->writev(io->low_ctx, &iov, 1);
		if (r < 0 && r != E_AGAIN) {
			io->wr_err = (int)r;
			return n;
		}
		if (r < 0)
			r = 0;
	}
	bufq_add(&io->wq, p + r, (size_t)(n - r));
	return n;
}

static long
tls_bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH; /* the rest we have not, do not need */
}

static BIO *
tls_bio_new(struct tlsio *io)
{
	BIO_METHOD **m = tlsctx_bio(io->ctx);
	BIO *b;

	if (*m == NULL) {
		*m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "sbx stream");
		if (*m == NULL || BIO_meth_set_read(*m, tls_bio_read) != 1 ||
		    BIO_meth_set_write(*m, tls_bio_write) != 1 ||
		    BIO_meth_set_ctrl(*m, tls_bio_ctrl) != 1)
			log_fatal("tls.bio", "reason=\"out of memory\"");
	}
	if ((b = BIO_new(*m)) == NULL)
		log_fatal("tls.bio", "reason=\"out of memory\"");
	BIO_set_data(b, io);
	BIO_set_init(b, 1);
	return b;
}

/* --- the stream layer -------------------------------------------------- */

/* OpenSSL failed for good: why, for the log. */
static int
tls_failed(struct tlsio *io)
{
	unsigned long e = ERR_peek_error();
	long v;

	io->failed = true;
	io->why = ERR_reason_error_string(e);
	if (ERR_GET_REASON(e) == SSL_R_CERTIFICATE_VERIFY_FAILED &&
	    (v = SSL_get_verify_result(io->ssl)) != X509_V_OK)
		io->why = X509_verify_cert_error_string(v);
	ERR_clear_error();
	(void)tls_flush(io); /* the alert, if it can go */
	return E_TLS;
}

/* A connection on which nothing was said yet costs no SSL object. */
static void
tls_start(struct tlsio *io)
{
	BIO *b = tls_bio_new(io);

	if ((io->ssl = SSL_new(tlsctx_ssl(io->ctx))) == NULL)
		log_fatal("tls.new", "reason=\"out of memory\"");
	SSL_set_bio(io->ssl, b, b);
}

static int
tls_handshake(void *ctx)
{
	struct tlsio *io = ctx;
	int r;

	if (io->ssl == NULL) {
		/* The server's first step is not due to an event: the client
		 * speaks first. */
		if (!io->started) {
			io->started = true;
			return E_AGAIN;
		}
		tls_start(io);
		SSL_set_accept_state(io->ssl);
	}
	if (!io->done) {
		io->drained = !io->started; /* the client's: nothing to read */
		io->started = true;
		ERR_clear_error();
		r = SSL_do_handshake(io->ssl);
		if (r != 1 && SSL_get_error(io->ssl, r) != SSL_ERROR_WANT_READ)
			return tls_failed(io);
		io->done = r == 1;
	}
	(void)tls_flush(io);
	if (io->wr_err != 0 || (io->low_err != 0 && !io->done)) {
		io->why = "connection closed during the handshake";
		if (io->wr_err == 0 && io->low_err != E_EOF)
			return io->low_err;
		return E_PEER;
	}
	return io->done && io->wq.len == 0 ? 0 : E_AGAIN;
}

/* Whole records or parts of one: after an SSL_read() that wanted more, there
 * is nothing here. */
static bool
tls_pending(void *ctx)
{
	struct tlsio *io = ctx;

	return !io->failed && (tls_held(io) > 0 || SSL_pending(io->ssl) > 0);
}

static ssize_t
tls_read(void *ctx, void *p, size_t n, bool *more)
{
	struct tlsio *io = ctx;
	int r;

	if (io->failed)
		return E_TLS;
	if (io->wq.len > 0)
		(void)tls_flush(io);
	io->drained = !*more;
	ERR_clear_error();
	r = SSL_read(io->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n);
	if (r > 0) {
		*more = !io->drained || io->wq.len > 0 || tls_pending(io);
		return r;
	}
	*more = false;
	switch (SSL_get_error(io->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return io->low_err != 0 ? io->low_err : E_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		io->eof_clean = true;
		return E_EOF;
	}
	return tls_failed(io);
}

/* The next piece to make a record of: in place when it is large or all there
 * is, else small ones gathered. Returns its length, *p where it stands. */
static size_t
tls_piece(struct tlsio *io, const struct iovec *iov, int n, size_t skip,
	  const char **p)
{
	char *scratch = tlsctx_scratch(io->ctx);
	size_t got = 0, len;

	for (; n > 0 && skip >= iov->iov_len; iov++, n--)
		skip -= iov->iov_len;
	if (n == 0)
		return 0;
	len = iov->iov_len - skip;
	if (n == 1 || len >= TLS_RECORD_MAX) {
		*p = (const char *)iov->iov_base + skip;
		return len < TLS_RECORD_MAX ? len : TLS_RECORD_MAX;
	}
	for (; n > 0 && got < TLS_RECORD_MAX; iov++, n--, skip = 0) {
		len = iov->iov_len - skip;
		if (len > TLS_RECORD_MAX - got)
			len = TLS_RECORD_MAX - got;
		memcpy(scratch + got, (const char *)iov->iov_base + skip, len);
		got += len;
	}
	*p = scratch;
	return got;
}

/* Encrypts up to max bytes behind the first skip ones; how many, or E_TLS. */
static ssize_t
tls_encrypt(struct tlsio *io, const struct iovec *iov, int n, size_t skip,
	    size_t max)
{
	const char *p = NULL;
	size_t done = 0, len;
	int r;

	while (done < max) {
		len = tls_piece(io, iov, n, skip + done, &p);
		if (len == 0)
			break;
		ERR_clear_error();
		r = SSL_write(io->ssl, p, (int)len);
		if (r <= 0) {
			if (SSL_get_error(io->ssl, r) != SSL_ERROR_WANT_READ)
				return tls_failed(io);
			break;
		}
		done += (size_t)r;
	}
	return (ssize_t)done;
}

static ssize_t
tls_writev(void *ctx, const struct iovec *iov, int n)
{
	struct tlsio *io = ctx;
	size_t total = 0, done;
	ssize_t r;
	int i;

	if (io->failed)
		return E_TLS;
	if (!tls_flush(io))
		return io->wr_err != 0 ? io->wr_err : E_AGAIN;
	done = io->unacked;
	io->unacked = 0;
	for (i = 0; i < n; i++)
		total += iov[i].iov_len;
	while (done < total) {
		io->corked = total - done > TLS_RECORD_MAX;
		r = tls_encrypt(io, iov, n, done,
				io->corked ? TLS_CORK_MAX : TLS_RECORD_MAX);
		io->corked = false;
		if (r < 0)
			return r;
		(void)tls_flush(io);
		if (io->wr_err != 0)
			return io->wr_err;
		if (io->wq.len > 0) {
			io->unacked = (size_t)r;
			break;
		}
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return done > 0 ? (ssize_t)done : E_AGAIN;
}

static int
tls_shutdown(void *ctx)
{
	struct tlsio *io = ctx;

	if (io->failed)
		return io->low->shutdown(io->low_ctx);
	if (!io->notified) {
		if (!tls_flush(io) && io->wr_err == 0)
			return E_AGAIN;
		ERR_clear_error();
		(void)SSL_shutdown(io->ssl);
		ERR_clear_error();
		io->notified = true;
	}
	if (!tls_flush(io))
		return io->wr_err != 0 ? io->wr_err : E_AGAIN;
	return io->low->shutdown(io->low_ctx);
}

static bool
tls_wants_write(void *ctx)
{
	return ((struct tlsio *)ctx)->wq.len > 0;
}

static const char *
tls_why(void *ctx)
{
	const struct tlsio *io = ctx;

	return io->why == NULL ? "" : io->why;
}

static bool
tls_eof_clean(void *ctx)
{
	return ((struct tlsio *)ctx)->eof_clean;
}

static void
tls_free(void *ctx)
{
	struct tlsio *io = ctx;

	SSL_free(io->ssl);
	if (tlsctx_ahead(io->ctx)->owner == io)
		tlsctx_ahead(io->ctx)->owner = NULL;
	bufq_clear(&io->rq);
	bufq_clear(&io->wq);
	if (io->low->free != NULL)
		io->low->free(io->low_ctx);
	tlsctx_unref(io->ctx);
	free(io);
}

static const struct stream_io tls_stream_io = {
    .read = tls_read,
    .writev = tls_writev,
    .shutdown = tls_shutdown,
    .handshake = tls_handshake,
    .pending = tls_pending,
    .wants_write = tls_wants_write,
    .eof_clean = tls_eof_clean,
    .why = tls_why,
    .free = tls_free,
};

/* --- making ------------------------------------------------------------ */

static struct tlsio *
tls_new(struct stream *st, struct tlsctx *ctx)
{
	struct tlsio *io = xcalloc(1, sizeof(*io));

	io->ctx = tlsctx_ref(ctx);
	io->low = stream_take_io(st, &io->low_ctx);
	bufq_init(&io->rq, loop_bufpool(stream_loop(st)));
	bufq_init(&io->wq, loop_bufpool(stream_loop(st)));
	return io;
}

void
tlsio_accept(struct stream *st, struct tlsctx *ctx)
{
	stream_set_io(st, &tls_stream_io, tls_new(st, ctx));
}

static void
tls_expect(SSL *ssl, const char *host)
{
	unsigned char ip[16];
	int ok;

	if (inet_pton(AF_INET, host, ip) == 1 ||
	    inet_pton(AF_INET6, host, ip) == 1)
		ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
	else
		ok = SSL_set1_host(ssl, host) == 1 &&
		     SSL_set_tlsext_host_name(ssl, host) == 1;
	if (ok != 1) /* unusable as a name: nothing may match it */
		(void)SSL_set1_host(ssl, "invalid.invalid");
	ERR_clear_error();
}

void
tlsio_connect(struct stream *st, struct tlsctx *ctx, const char *host)
{
	static const unsigned char alpn[] = "\x08http/1.1";
	struct tlsio *io = tls_new(st, ctx);

	tls_start(io);
	SSL_set_connect_state(io->ssl);
	(void)SSL_set_alpn_protos(io->ssl, alpn, sizeof(alpn) - 1);
	tls_expect(io->ssl, host);
	stream_set_io(st, &tls_stream_io, io);
}

/* --- facts ------------------------------------------------------------- */

bool
tlsio_is(struct stream *st)
{
	return stream_io_ctx(st, &tls_stream_io) != NULL;
}

bool
tlsio_info(struct stream *st, struct tls_info *out)
{
	struct tlsio *io = stream_io_ctx(st, &tls_stream_io);

	if (io == NULL || !io->done)
		return false;
	out->version = SSL_get_version(io->ssl);
	out->cipher = SSL_get_cipher_name(io->ssl);
	out->sni = SSL_get_servername(io->ssl, TLSEXT_NAMETYPE_host_name);
	out->resumed = SSL_session_reused(io->ssl) == 1;
	return true;
}

const char *
tlsio_error(struct stream *st)
{
	struct tlsio *io = stream_io_ctx(st, &tls_stream_io);

	return io == NULL || io->why == NULL ? "" : io->why;
}
