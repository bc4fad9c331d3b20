/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one error vocabulary. Functions that can fail for a reason outside the
 * program return 0 or one of these (all negative), and touch their
 * out-pointers only on success. Whoever handles an error logs it, once.
 */
#ifndef SBX_BASE_ERR_H
#define SBX_BASE_ERR_H

enum sbx_err {
	E_OK = 0,
	E_AGAIN = -1,        /* not yet: more input, or try after an event */
	E_EOF = -2,          /* orderly end */
	E_PROTO = -3,        /* the peer broke the protocol */
	E_LIMIT = -4,        /* a configured or fixed bound was reached */
	E_PEER = -5,         /* the peer went away (reset, broken pipe) */
	E_TIMEOUT = -6,      /* a deadline passed */
	E_REFUSED = -7,      /* nobody listens there */
	E_NOTFOUND = -8,     /* no such thing */
	E_DENIED = -9,       /* not permitted, or authentication failed */
	E_INVALID = -10,     /* bad argument or configuration value */
	E_EXISTS = -11,      /* there is one already */
	E_SYS = -12,         /* a system call failed; errno says which way */
	E_TLS = -13,         /* TLS failed (handshake or record) */
	E_CANCELLED = -14,   /* given up by the caller */
	E_UNREACHABLE = -15, /* no route, no address, name not resolved */
	E_FULL = -16,        /* no room: disk, quota, descriptors */
	E_BUSY = -17,        /* in use; trying later may work */
	E_UNSUPPORTED = -18  /* this system or build cannot do it */
};

/* A short English text for e ("timed out"); never NULL, static. */
const char *err_text(int e);

/* The sbx_err that fits an errno value (ECONNREFUSED -> E_REFUSED, ...);
 * E_SYS when none does. Never returns 0. */
int err_from_errno(int eno);

#endif
