/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of the error vocabulary and its relation to errno. There is no
 * default case in the switch over our enum, so a new error without a text is
 * a compiler warning.
 */
#include "config.h"

#include "base/err.h"

#include <errno.h>

#include "base/defs.h"

static const struct {
	int eno;
	enum sbx_err err;
} errno_map[] = {
    {EAGAIN, E_AGAIN},
    {EINPROGRESS, E_AGAIN},
    {EINTR, E_AGAIN},
    {EPIPE, E_PEER},
    {ECONNRESET, E_PEER},
    {ECONNABORTED, E_PEER},
    {ENOTCONN, E_PEER},
    {ESHUTDOWN, E_PEER},
    {ETIMEDOUT, E_TIMEOUT},
    {ECONNREFUSED, E_REFUSED},
    {ENOENT, E_NOTFOUND},
    {ENOTDIR, E_NOTFOUND},
    {ESRCH, E_NOTFOUND},
    {EACCES, E_DENIED},
    {EPERM, E_DENIED},
    {EROFS, E_DENIED},
    {EINVAL, E_INVALID},
    {ENAMETOOLONG, E_INVALID},
    {EISDIR, E_INVALID},
    {ELOOP, E_INVALID},
    {EAFNOSUPPORT, E_UNSUPPORTED},
    {ENOSYS, E_UNSUPPORTED},
    {EOPNOTSUPP, E_UNSUPPORTED},
    {EPROTONOSUPPORT, E_UNSUPPORTED},
    {EEXIST, E_EXISTS},
    {ENOTEMPTY, E_EXISTS},
    {EHOSTUNREACH, E_UNREACHABLE},
    {ENETUNREACH, E_UNREACHABLE},
    {EHOSTDOWN, E_UNREACHABLE},
    {ENETDOWN, E_UNREACHABLE},
    {EADDRNOTAVAIL, E_UNREACHABLE},
    {ENOSPC, E_FULL},
    {EDQUOT, E_FULL},
    {EMFILE, E_FULL},
    {ENFILE, E_FULL},
    {ENOBUFS, E_FULL},
    {ENOMEM, E_FULL},
    {EBUSY, E_BUSY},
    {EADDRINUSE, E_BUSY},
    {ETXTBSY, E_BUSY},
    {ECANCELED, E_CANCELLED},
    {EFBIG, E_LIMIT},
    {EMSGSIZE, E_LIMIT},
    {E2BIG, E_LIMIT},
    {EPROTO, E_PROTO},
    {EBADMSG, E_PROTO},
};

const char *
err_text(int e)
{
	switch ((enum sbx_err)e) {
	case E_OK:
		return "no error";
	case E_AGAIN:
		return "not ready yet";
	case E_EOF:
		return "end of input";
	case E_PROTO:
		return "protocol error";
	case E_LIMIT:
		return "limit reached";
	case E_PEER:
		return "connection lost";
	case E_TIMEOUT:
		return "timed out";
	case E_REFUSED:
		return "connection refused";
	case E_NOTFOUND:
		return "not found";
	case E_DENIED:
		return "permission denied";
	case E_INVALID:
		return "invalid value";
	case E_EXISTS:
		return "already exists";
	case E_SYS:
		return "system error";
	case E_TLS:
		return "TLS error";
	case E_CANCELLED:
		return "cancelled";
	case E_UNREACHABLE:
		return "unreachable";
	case E_FULL:
		return "no room left";
	case E_BUSY:
		return "in use";
	case E_UNSUPPORTED:
		return "not supported here";
	}
	return "unknown error";
}

int
err_from_errno(int eno)
{
	for (size_t i = 0; i < ARRAY_LEN(errno_map); i++) {
		if (errno_map[i].eno == eno)
			return errno_map[i].err;
	}
	return E_SYS;
}
