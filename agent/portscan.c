/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening ports from /proc/net/tcp and tcp6. The kernel puts the listening
 * sockets before all others there, so that reading may stop soon after them;
 * a machine with many connections has megabytes of the rest.
 */
#include "config.h"

#include "agent/portscan.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/str.h"

#define PORTSCAN_LISTEN 0x0a /* TCP_LISTEN */
/* So many lines of other sockets in a row: no listening one will follow. */
#define PORTSCAN_OTHERS    1024
#define PORTSCAN_PROCESSES 4096
#define PORTSCAN_LINKS     65536

void
portscan_own_add(struct portscan_own *o, int fd)
{
	struct stat st;

	if (o->n < PORTSCAN_OWN_MAX && fstat(fd, &st) == 0)
		o->inodes[o->n++] = st.st_ino;
}

static bool
portscan_is_own(const struct portscan_own *o, ino_t inode)
{
	for (unsigned i = 0; o != NULL && i < o->n; i++) {
		if (o->inodes[i] == inode)
			return true;
	}
	return false;
}

void
portscan_add_unix(struct portscan *s, uint16_t port)
{
	struct portscan_entry *e;

	if (s->n == PORTSCAN_MAX)
		return;
	e = &s->v[s->n++];
	memset(e, 0, sizeof(*e));
	e->port = port;
	e->family = AF_UNIX;
}

/* --- one line ---------------------------------------------------------- */

/* The next word; empty at the end of the line. */
static struct strv
portscan_word(struct strv *rest)
{
	struct strv w = STRV_NULL;

	while (rest->len > 0 && *rest->p == ' ')
		*rest = strv_from(*rest, 1);
	if (!strv_cut(rest, ' ', &w))
		return STRV_NULL;
	return w;
}

static bool
portscan_hex(struct strv v, uint32_t *out)
{
	uint32_t n = 0;

	if (v.len == 0 || v.len > 8)
		return false;
	for (size_t i = 0; i < v.len; i++) {
		int d = str_hex_value(v.p[i]);

		if (d < 0)
			return false;
		n = n << 4 | (uint32_t)d;
	}
	*out = n;
	return true;
}

/* "0100007F:1F40": words of the address as this machine's integers. */
static bool
portscan_local(struct strv v, bool v6, struct portscan_entry *e)
{
	uint32_t words[4] = {0}, port;
	unsigned n = v6 ? 4 : 1;

	if (v.len < 8 * n + 2 || v.p[(size_t)8 * n] != ':')
		return false;
	for (unsigned i = 0; i < n; i++) {
		struct strv w = {v.p + (size_t)8 * i, 8};

		if (!portscan_hex(w, &words[i]))
			return false;
	}
	if (!portscan_hex(strv_from(v, (size_t)8 * n + 1), &port) ||
	    port == 0 || port > 65535)
		return false;
	e->port = (uint16_t)port;
	e->family = v6 ? AF_INET6 : AF_INET;
	return inet_ntop(e->family, words, e->address, sizeof(e->address)) !=
	       NULL;
}

/* True when the line is of a listening socket. */
static bool
portscan_line(struct portscan *s, struct strv line, bool v6,
	      const struct portscan_own *own)
{
	struct portscan_entry e = {0};
	uint64_t inode = 0;
	uint32_t state;
	struct strv local, w = STRV_NULL;

	(void)portscan_word(&line); /* "0:" */
	local = portscan_word(&line);
	(void)portscan_word(&line);
	if (!portscan_hex(portscan_word(&line), &state) ||
	    state != PORTSCAN_LISTEN)
		return false;
	/* queues, timer, retransmits, uid, timeout, inode */
	for (int i = 0; i < 6; i++)
		w = portscan_word(&line);
	if (strv_parse_u64(w, UINT64_MAX, false, &inode) != 0 ||
	    !portscan_local(local, v6, &e))
		return true;
	e.inode = (ino_t)inode;
	if (s->n < PORTSCAN_MAX && !portscan_is_own(own, e.inode))
		s->v[s->n++] = e;
	return true;
}

void
portscan_take_fd(struct portscan *s, int fd, bool v6,
		 const struct portscan_own *own)
{
	FILE *f = fdopen(fd, "r");
	unsigned others = 0;
	char line[512];

	if (f == NULL) {
		(void)close(fd);
		return;
	}
	while (others < PORTSCAN_OTHERS &&
	       fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (portscan_line(s, strv_of(line), v6, own))
			others = 0;
		else
			others++;
	}
	(void)fclose(f);
}

void
portscan_tcp(struct portscan *s, const struct portscan_own *own)
{
	int fd = open("/proc/self/net/tcp", O_RDONLY | O_CLOEXEC);

	if (fd != -1)
		portscan_take_fd(s, fd, false, own);
	fd = open("/proc/self/net/tcp6", O_RDONLY | O_CLOEXEC);
	if (fd != -1)
		portscan_take_fd(s, fd, true, own);
}

/* --- processes --------------------------------------------------------- */

static void
portscan_holder(struct portscan *s, ino_t inode, pid_t pid)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].inode == inode && s->v[i].family != AF_UNIX &&
		    s->v[i].pid == 0)
			s->v[i].pid = pid;
	}
}

/* Looks at what one process has open; false when enough was looked at. */
static bool
portscan_fds(struct portscan *s, int proc, const char *name, unsigned *links)
{
	char path[32], text[64];
	struct dirent *e;
	uint64_t n, pid;
	struct strv v;
	ssize_t len;
	int fd;
	DIR *d;

	if (strv_parse_u64(strv_of(name), INT32_MAX, true, &pid) != 0)
		return true;
	(void)snprintf(path, sizeof(path), "%d/fd", (int)pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1 || (d = fdopendir(fd)) == NULL) {
		fd_close(&fd);
		return true;
	}
	while (*links > 0 && (e = readdir(d)) != NULL) {
		(*links)--;
		len = readlinkat(dirfd(d), e->d_name, text, sizeof(text));
		v = (struct strv){text, len > 0 ? (size_t)len : 0};
		if (!strv_starts(v, STRV("socket:[")) ||
		    !strv_ends(v, STRV("]")))
			continue;
		v = (struct strv){v.p + 8, v.len - 9};
		if (strv_parse_u64(v, UINT64_MAX, false, &n) == 0)
			portscan_holder(s, (ino_t)n, (pid_t)pid);
	}
	(void)closedir(d);
	return *links > 0;
}

void
portscan_pids(struct portscan *s)
{
	unsigned links = PORTSCAN_LINKS, processes = PORTSCAN_PROCESSES;
	DIR *d = s->n > 0 ? opendir("/proc") : NULL;
	struct dirent *e;

	if (d == NULL)
		return;
	while (processes > 0 && (e = readdir(d)) != NULL) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		processes--;
		if (!portscan_fds(s, dirfd(d), e->d_name, &links))
			break;
	}
	(void)closedir(d);
}

static int
portscan_compare(const void *a, const void *b)
{
	const struct portscan_entry *x = a, *y = b;

	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	return strcmp(x->address, y->address);
}

void
portscan_sort(struct portscan *s)
{
	qsort(s->v, s->n, sizeof(s->v[0]), portscan_compare);
}
