/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as text: the `stats` message, and Prometheus exposition. */
#include "config.h"

#include "gateway/statmsg.h"

#include <string.h>

#include "base/err.h"

enum stat_kind { counter, gauge };

struct stat_desc {
	const char *name;
	enum stat_kind kind;
	const char *help;
	size_t offset;
};

static const struct stat_desc descs[] = {
#define X(name, type, help) {#name, type, help, offsetof(struct stats, name)},
    STATS_LIST(X)
#undef X
};

static uint64_t
value(const struct stats *s, const struct stat_desc *d)
{
	uint64_t v;

	memcpy(&v, (const char *)s + d->offset, sizeof(v));
	return v;
}

static void
set_value(struct stats *s, const struct stat_desc *d, uint64_t v)
{
	memcpy((char *)s + d->offset, &v, sizeof(v));
}

void
statmsg_add(const struct stats *s, struct strbuf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(descs); i++)
		strbuf_addf(out, " %s=%llu", descs[i].name,
			    (unsigned long long)value(s, &descs[i]));
}

int
statmsg_parse(struct strv text, struct stats *out)
{
	struct stats s = {0};
	struct strv word, name;
	uint64_t v;

	while (strv_cut(&text, ' ', &word)) {
		if (!strv_cut(&word, '=', &name) ||
		    strv_parse_u64(word, UINT64_MAX, true, &v) != 0)
			return E_INVALID;
		for (size_t i = 0; i < ARRAY_LEN(descs); i++)
			if (strv_eq(name, strv_of(descs[i].name)))
				set_value(&s, &descs[i], v);
	}
	*out = s;
	return 0;
}

void
statmsg_sum(struct stats *total, const struct stats *s, bool gauges)
{
	for (size_t i = 0; i < ARRAY_LEN(descs); i++)
		if (gauges || descs[i].kind == counter)
			set_value(total, &descs[i],
				  value(total, &descs[i]) +
				      value(s, &descs[i]));
}

void
statmsg_prometheus(const struct stats *s, struct strbuf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(descs); i++) {
		const struct stat_desc *d = &descs[i];

		strbuf_addf(out,
			    "# HELP sbx_gateway_%s %s\n"
			    "# TYPE sbx_gateway_%s %s\n"
			    "sbx_gateway_%s %llu\n",
			    d->name, d->help, d->name,
			    d->kind == gauge ? "gauge" : "counter", d->name,
			    (unsigned long long)value(s, d));
	}
}

void
statmsg_json(const struct stats *s, struct strbuf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(descs); i++)
		strbuf_addf(out, "%s\"%s\":%llu", i == 0 ? "{" : ",",
			    descs[i].name,
			    (unsigned long long)value(s, &descs[i]));
	strbuf_addc(out, '}');
}
