/* SPDX-License-Identifier: Apache-2.0 */
/* Stands between libssh2's channels and its encryption. */
#include "config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tunnel/farsock.h"

#ifdef HAVE_LIBSSH2_WRAP

/* The linker (--wrap) has libssh2 call these two, and calls the real ones by
 * the other names. The names in C are not reserved ones. */
int farsock_send(void *session, const unsigned char *p, size_t n,
		 const unsigned char *more,
		 size_t nmore) __asm__("__wrap__libssh2_transport_send");
int farsock_really_send(void *session, const unsigned char *p, size_t n,
			const unsigned char *more,
			size_t nmore) __asm__("__real__libssh2_transport_send");
int farsock_add(void *session, unsigned char *p, size_t n, int macstate,
		uint32_t seq) __asm__("__wrap__libssh2_packet_add");
int farsock_really_add(void *session, unsigned char *p, size_t n, int macstate,
		       uint32_t seq) __asm__("__real__libssh2_packet_add");

int
farsock_send(void *session, const unsigned char *p, size_t n,
	     const unsigned char *more, size_t nmore)
{
	unsigned char out[FARSOCK_MAX];
	size_t len = farsock_out(p, n, out);

	if (len > 0)
		return farsock_really_send(session, out, len, NULL, 0);
	return farsock_really_send(session, p, n, more, nmore);
}

/* Called again with the same packet it finds it translated: that is fine. */
int
farsock_add(void *session, unsigned char *p, size_t n, int macstate,
	    uint32_t seq)
{
	return farsock_really_add(session, p, farsock_in(p, n), macstate, seq);
}

bool
farsock_works(void)
{
	return true;
}

#else

bool
farsock_works(void)
{
	return false;
}

#endif
