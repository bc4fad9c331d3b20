/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 4254's words for far sockets, and OpenSSH's. */
#include "config.h"

#include "tunnel/farsock.h"

#include <stdint.h>
#include <string.h>

#define MSG_GLOBAL_REQUEST 80
#define MSG_CHANNEL_OPEN   90
#define PORT_LISTEN        "tcpip-forward"
#define PATH_LISTEN        "streamlocal-forward@openssh.com"
#define PORT_OPEN          "forwarded-tcpip"
#define PATH_OPEN          "forwarded-streamlocal@openssh.com"
#define NUMBERS            12 /* channel, window, packet */

/* A message that is being read; p is NULL once it was too short. */
struct reader {
	const unsigned char *p;
	size_t n;
};

static const unsigned char *
take(struct reader *r, size_t n)
{
	const unsigned char *p = r->p;

	if (p == NULL || r->n < n) {
		r->p = NULL;
		return NULL;
	}
	r->p += n;
	r->n -= n;
	return p;
}

static const unsigned char *
take_string(struct reader *r, size_t *len)
{
	const unsigned char *p = take(r, 4);

	if (p == NULL)
		return NULL;
	*len =
	    (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	return take(r, *len);
}

static bool
take_word(struct reader *r, const char *word)
{
	size_t n;
	const unsigned char *p = take_string(r, &n);

	return p != NULL && n == strlen(word) && memcmp(p, word, n) == 0;
}

static unsigned char *
put_u32(unsigned char *o, size_t v)
{
	o[0] = (unsigned char)(v >> 24);
	o[1] = (unsigned char)(v >> 16);
	o[2] = (unsigned char)(v >> 8);
	o[3] = (unsigned char)v;
	return o + 4;
}

/* p may lie in the same memory, further on. */
static unsigned char *
put_string(unsigned char *o, const void *p, size_t n)
{
	memmove(o + 4, p, n);
	return put_u32(o, n) + n;
}

size_t
farsock_out(const unsigned char *p, size_t n, unsigned char out[FARSOCK_MAX])
{
	struct reader r = {p, n};
	const unsigned char *type = take(&r, 1), *path, *reply;
	unsigned char *o = out;
	size_t len;

	if (type == NULL || *type != MSG_GLOBAL_REQUEST ||
	    !take_word(&r, PORT_LISTEN))
		return 0;
	reply = take(&r, 1);
	path = take_string(&r, &len);
	if (path == NULL || len == 0 || *path != '/' ||
	    len > FARSOCK_MAX - 10 - strlen(PATH_LISTEN))
		return 0;
	*o++ = MSG_GLOBAL_REQUEST;
	o = put_string(o, PATH_LISTEN, strlen(PATH_LISTEN));
	*o++ = *reply;
	o = put_string(o, path, len);
	return (size_t)(o - out);
}

/* The new words are shorter, so that each is written below what is still to be
 * read. */
size_t
farsock_in(unsigned char *p, size_t n)
{
	struct reader r = {p, n};
	const unsigned char *type = take(&r, 1), *numbers, *path;
	unsigned char *o = p;
	size_t len, reserved;

	if (type == NULL || *type != MSG_CHANNEL_OPEN ||
	    !take_word(&r, PATH_OPEN))
		return n;
	numbers = take(&r, NUMBERS);
	path = take_string(&r, &len);
	if (take_string(&r, &reserved) == NULL)
		return n;
	*o++ = MSG_CHANNEL_OPEN;
	o = put_string(o, PORT_OPEN, strlen(PORT_OPEN));
	memmove(o, numbers, NUMBERS);
	o = put_string(o + NUMBERS, path, len);
	o = put_u32(o, FARSOCK_PORT);
	o = put_u32(o, 0); /* from nobody */
	o = put_u32(o, 0);
	return (size_t)(o - p);
}
