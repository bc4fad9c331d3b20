/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route_match() on any Host and target: what it returns points into its input,
 * holds together, and a port or id it names could be written in just one way.
 * Input: host, NUL, path; the first byte chooses the label order and domain.
 */
#include "config.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gateway/gwconf.h"
#include "gateway/route.h"
#include "tests/fuzz/fuzz.h"

static void
within(struct strv part, struct strv whole)
{
	if (part.len == 0)
		return;
	assert(part.p >= whole.p);
	assert(part.p + part.len <= whole.p + whole.len);
}

static void
check_port(const struct route_match *m, struct strv path)
{
	char port[8];
	int len = snprintf(port, sizeof(port), "%u", m->port);

	assert(m->port != 0);
	if (!m->by_name || m->label.len > 0) {
		assert(m->prefix.len + m->tail.len == path.len);
		assert(m->prefix.p == path.p);
	}
	if (m->prefix.len > 0 &&
	    memchr(m->prefix.p, '.', m->prefix.len) == NULL)
		assert(memmem(m->prefix.p, m->prefix.len, port, (size_t)len));
	assert(m->tail.len == 0 || m->tail.p[0] == '/' || m->tail.p[0] == '?' ||
	       m->by_name);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char domain[] = "sbx.example";
	struct gw_conf conf = {0};
	struct route_match m;
	struct strv in, host, path = STRV_NULL;

	if (n < 1)
		return 0;
	conf.label_order = (enum label_order)(data[0] % 3);
	conf.domain = (data[0] & 4) != 0 ? domain : NULL;
	in.p = (const char *)data + 1;
	in.len = n - 1;
	if (!strv_cut(&in, '\0', &host) || in.p == NULL)
		return 0;
	path = in;
	route_match(&conf, host, path, &m);
	within(m.prefix, path);
	within(m.tail, path);
	if (m.kind == ROUTE_BAD)
		assert(m.why != NULL);
	if (m.kind == ROUTE_PORT)
		check_port(&m, path);
	if (m.kind == ROUTE_PORT || m.kind == ROUTE_AGENT) {
		if (m.by_name && m.label.len == 0)
			within(m.id, host);
		else
			within(m.id, path);
		if (m.id.len > 0 && !m.by_name)
			assert(route_id_ok(m.id));
	}
	(void)route_plain_path(path);
	(void)route_stays_below(path);
	return 0;
}
