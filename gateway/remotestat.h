/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sbx-tunnel says of itself (sbx-tunnel(1), STATUS), one line at a time.
 * It is ours, but what it repeats (reasons) came from elsewhere: everything is
 * bounded and judged.
 */
#ifndef SBX_GATEWAY_REMOTESTAT_H
#define SBX_GATEWAY_REMOTESTAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

#define REMOTESTAT_LINE_MAX 65536
#define REMOTESTAT_TEXT     256 /* of a reason, with its NUL */
#define REMOTESTAT_FWD_MAX  96

enum remotestat_event {
	REMOTESTAT_CONNECTING,
	REMOTESTAT_READY, /* reconnected, too: then with down_ms */
	REMOTESTAT_DEGRADED,
	REMOTESTAT_DOWN,
	REMOTESTAT_STOPPED
};

struct remotestat_fwd {
	char spec[REMOTESTAT_TEXT];
	char state[16];
	uint16_t port;
	bool remote;
};

struct remotestat {
	enum remotestat_event event;
	bool again; /* reconnected */
	char reason[REMOTESTAT_TEXT];
	uint64_t retry_ms, down_ms;
	struct remotestat_fwd fwd[REMOTESTAT_FWD_MAX];
	size_t nfwd;
};

/* E_INVALID; E_UNSUPPORTED: an event of a later release. */
int remotestat_parse(struct strv line, struct remotestat *out) SBX_MUST_CHECK;

#endif
