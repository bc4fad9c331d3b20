/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells systemd how we are: one datagram to the socket in NOTIFY_SOCKET
 * (sd_notify(3)). A reload carries the time at which it began, which
 * Type=notify-reload asks for.
 */
#include "config.h"

#include "gateway/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/fdio.h"

void
notify_send(const char *state)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	struct timespec now = {0};
	char text[128];
	size_t len;
	int fd;

	if (path == NULL || (path[0] != '/' && path[0] != '@'))
		return;
	len = strlen(path);
	if (len >= sizeof(un.sun_path))
		return;
	memcpy(un.sun_path, path, len);
	if (path[0] == '@')
		un.sun_path[0] = '\0';
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "%s\nMONOTONIC_USEC=%lld", state,
		 (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	(void)!sendto(
	    fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&un,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	fd_close(&fd);
}
