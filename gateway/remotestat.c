/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-tunnel's status lines; see the header. */
#include "config.h"

#include "gateway/remotestat.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"

/* Printable text only, cut to what fits. */
static void
copy_text(char *to, size_t n, const char *from)
{
	size_t i = 0;

	for (; from != NULL && from[i] != '\0' && i + 1 < n; i++)
		to[i] = from[i] >= ' ' && from[i] < 127 ? from[i] : '?';
	to[i] = '\0';
}

static void
copy_number(const struct json *v, uint64_t max, uint64_t *to)
{
	if (json_u64(v, max, to) != 0)
		*to = 0;
}

static void
copy_forwards(const struct json *list, struct remotestat *out)
{
	const struct json *it = NULL;
	const char *kind;
	uint64_t port;

	if (list == NULL || json_type(list) != JSON_ARRAY)
		return;
	while (out->nfwd < REMOTESTAT_FWD_MAX && json_each(list, &it, NULL)) {
		struct remotestat_fwd *f = &out->fwd[out->nfwd++];

		memset(f, 0, sizeof(*f));
		kind = json_string(json_get(it, "kind"));
		f->remote = kind != NULL && strcmp(kind, "remote") == 0;
		copy_text(f->spec, sizeof(f->spec),
			  json_string(json_get(it, "spec")));
		copy_text(f->state, sizeof(f->state),
			  json_string(json_get(it, "state")));
		copy_number(json_get(it, "port"), UINT16_MAX, &port);
		f->port = (uint16_t)port;
	}
}

static int
event_of(const char *word, struct remotestat *out)
{
	static const struct {
		const char *word;
		enum remotestat_event event;
		bool again;
	} words[] = {{"connecting", REMOTESTAT_CONNECTING, false},
		     {"ready", REMOTESTAT_READY, false},
		     {"reconnected", REMOTESTAT_READY, true},
		     {"degraded", REMOTESTAT_DEGRADED, false},
		     {"down", REMOTESTAT_DOWN, false},
		     {"stopped", REMOTESTAT_STOPPED, false}};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		out->event = words[i].event;
		out->again = words[i].again;
		return 0;
	}
	return E_UNSUPPORTED;
}

int
remotestat_parse(struct strv line, struct remotestat *out)
{
	struct json_doc *doc = NULL;
	const struct json *root;
	const char *word;
	int r;

	if (line.len > REMOTESTAT_LINE_MAX)
		return E_LIMIT;
	if (json_parse(line, &doc, NULL) != 0)
		return E_INVALID;
	root = json_root(doc);
	word = json_string(json_get(root, "event"));
	r = word != NULL ? event_of(word, out) : E_INVALID;
	if (r == 0) {
		copy_text(out->reason, sizeof(out->reason),
			  json_string(json_get(root, "reason")));
		copy_number(json_get(root, "retry_ms"), 1ULL << 40,
			    &out->retry_ms);
		copy_number(json_get(root, "down_ms"), 1ULL << 50,
			    &out->down_ms);
		out->nfwd = 0;
		copy_forwards(json_get(root, "forwards"), out);
	}
	json_doc_free(doc);
	return r;
}
