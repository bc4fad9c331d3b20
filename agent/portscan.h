/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which TCP ports somebody listens on in the agent's own network namespace, as
 * /proc tells it. Blocks on nothing but the kernel; everything is bounded.
 */
#ifndef SBX_AGENT_PORTSCAN_H
#define SBX_AGENT_PORTSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PORTSCAN_MAX     1024
#define PORTSCAN_ADDRESS 46 /* INET6_ADDRSTRLEN */
#define PORTSCAN_OWN_MAX 4

/* The agent's own listening sockets, which are no servers of the sandbox. */
struct portscan_own {
	ino_t inodes[PORTSCAN_OWN_MAX];
	unsigned n;
};
void portscan_own_add(struct portscan_own *o, int fd);

struct portscan_entry {
	uint16_t port;
	int family;                     /* AF_INET, AF_INET6, AF_UNIX */
	char address[PORTSCAN_ADDRESS]; /* empty: AF_UNIX */
	ino_t inode;
	pid_t pid; /* 0: unknown */
};

struct portscan {
	struct portscan_entry v[PORTSCAN_MAX];
	size_t n;
};

/* One with a socket file; beyond PORTSCAN_MAX it is left out. */
void portscan_add_unix(struct portscan *s, uint16_t port);
/* Adds what listens on TCP, without what is own's (may be NULL). */
void portscan_tcp(struct portscan *s, const struct portscan_own *own);
/* The same from a file like /proc/net/tcp or tcp6. */
void portscan_take_fd(struct portscan *s, int fd, bool v6,
		      const struct portscan_own *own);
/* Finds the processes that hold them, as far as those may be looked at. */
void portscan_pids(struct portscan *s);
/* By port, then family. */
void portscan_sort(struct portscan *s);

#endif
