/* SPDX-License-Identifier: Apache-2.0 */
/* portscan: what /proc says, and what listens here. */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/portscan.h"
#include "base/mem.h"

static const char head[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
    "retrnsmt   uid  timeout inode\n";

/* A descriptor that gives that text. */
static int
text_fd(const char *text)
{
	char path[] = "/tmp/portscan.XXXXXX";
	int fd = mkstemp(path);

	assert_int_not_equal(fd, -1);
	(void)unlink(path);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static struct portscan *
scan_text(const char *text, bool v6, const struct portscan_own *own)
{
	struct portscan *s = xcalloc(1, sizeof(*s));

	portscan_take_fd(s, text_fd(text), v6, own);
	return s;
}

static void
test_lines(void **state)
{
	const struct portscan_own own = {{7}, 1};
	struct portscan *s;
	char *text = xasprintf(
	    "%s%s%s%s%s%s", head,
	    "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 "
	    "00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n",
	    "   1: 00000000:0016 00000000:0000 0A 00000000:00000000 "
	    "00:00000000 00000000     0        0 12 1 0 100 0 0 10 0\n",
	    "   2: 00000000:0017 00000000:0000 0A 00000000:00000000 "
	    "00:00000000 00000000     0        0 7 1 0 100 0 0 10 0\n",
	    "   3: 0100007F:1F41 0100007F:9C40 01 00000000:00000000 "
	    "00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1\n",
	    "nonsense\n   4: 00:1 0 0A\n   5: 0100007F:XXXX 0:0 0A 0 0 0 0 0 "
	    "9\n\n");

	(void)state;
	s = scan_text(text, false, &own);
	portscan_sort(s);
	assert_int_equal(s->n, 2);
	assert_int_equal(s->v[0].port, 22);
	assert_string_equal(s->v[0].address, "0.0.0.0");
	assert_int_equal(s->v[1].port, 8000);
	assert_int_equal(s->v[1].family, AF_INET);
	assert_string_equal(s->v[1].address, "127.0.0.1");
	assert_int_equal(s->v[1].inode, 4711);
	free(s);
	free(text);
}

static void
test_v6(void **state)
{
	struct portscan *s;
	char *text = xasprintf(
	    "%s%s", head,
	    "   0: 00000000000000000000000001000000:1F90 "
	    "00000000000000000000000000000000:0000 0A 00000000:00000000 "
	    "00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n");

	(void)state;
	s = scan_text(text, true, NULL);
	assert_int_equal(s->n, 1);
	assert_int_equal(s->v[0].port, 8080);
	assert_int_equal(s->v[0].family, AF_INET6);
	assert_string_equal(s->v[0].address, "::1");
	free(s);
	free(text);
}

/* No more than fits, however many there are. */
static void
test_bound(void **state)
{
	char *text = xmalloc(128 * 2000);
	struct portscan *s;
	size_t n = 0;

	(void)state;
	for (int i = 1; i <= 1500; i++)
		n += (size_t)snprintf(
		    text + n, 128,
		    "%4d: 00000000:%04X 00000000:0000 0A 0 0 0 0 0 %d\n", i, i,
		    i);
	s = scan_text(text, false, NULL);
	assert_int_equal(s->n, PORTSCAN_MAX);
	portscan_add_unix(s, 1);
	assert_int_equal(s->n, PORTSCAN_MAX);
	free(s);
	free(text);
}

static int
listening(int family, uint16_t *port)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in a4 = {.sin_family = AF_INET};
	socklen_t len = family == AF_INET ? sizeof(a4) : sizeof(a6);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr *a =
	    family == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;

	a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd == -1 || bind(fd, a, len) != 0)
		return -1;
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, a, &len), 0);
	*port = ntohs(family == AF_INET ? a4.sin_port : a6.sin6_port);
	return fd;
}

/* Its index; s->n: not there. */
static size_t
find(const struct portscan *s, uint16_t port)
{
	size_t i = 0;

	while (i < s->n && s->v[i].port != port)
		i++;
	return i;
}

static void
check_ours(const struct portscan *s, uint16_t port, int family)
{
	size_t i = find(s, port);

	assert_true(i < s->n);
	assert_int_equal(s->v[i].family, family);
	assert_int_equal(s->v[i].pid, getpid());
}

static void
test_real(void **state)
{
	struct portscan *s = xcalloc(1, sizeof(*s));
	struct portscan_own own = {{0}, 0};
	uint16_t port, port6 = 0, mine;
	int fd = listening(AF_INET, &port), fd6 = listening(AF_INET6, &port6);
	int fd_own = listening(AF_INET, &mine);

	(void)state;
	portscan_own_add(&own, fd_own);
	portscan_tcp(s, &own);
	portscan_pids(s);
	check_ours(s, port, AF_INET);
	assert_int_equal(find(s, mine), s->n);
	if (fd6 != -1) {
		check_ours(s, port6, AF_INET6);
		(void)close(fd6);
	}
	(void)close(fd);
	(void)close(fd_own);
	free(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_v6),
	    cmocka_unit_test(test_bound),
	    cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
