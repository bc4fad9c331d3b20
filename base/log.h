/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured log: an event name, then key=value pairs, one line an event.
 *
 *     log_info("route.add", "sandbox=%s port=%u", id, port);
 *
 * Text that a peer supplied goes through log_esc(), which escapes control
 * bytes and cuts at 256. Secrets are never given to these functions at all.
 *
 * Values with blanks stand in double quotes. In JSON mode the pairs become
 * members: an unquoted number stays a number, everything else is a string,
 * and words without a key end up in "msg".
 */
#ifndef SBX_BASE_LOG_H
#define SBX_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

struct log_options {
	enum log_level level;
	const char *program; /* shown on each line, borrowed, may be NULL */
	const char *path;    /* NULL: stderr; else a file, opened for append */
	bool json;           /* JSON lines instead of key=value text */
	bool time;           /* begin lines with an RFC 3339 time */
};

/* Applies o; a file that cannot be opened gives E_SYS and keeps the old sink.
 */
int log_setup(const struct log_options *o) SBX_MUST_CHECK;
/* Opens the log file again (after logrotate). */
void log_reopen(void);
/* With a hook, lines (NUL-terminated, without their LF) go there and nowhere
 * else: for tests, and for programs whose log is somebody else's. NULL takes
 * it away. */
typedef void (*log_hook_cb)(enum log_level l, const char *line, size_t len,
			    void *arg);
void log_set_hook(log_hook_cb cb, void *arg);
bool log_enabled(enum log_level l);
int log_level_parse(struct strv name, enum log_level *out) SBX_MUST_CHECK;

void log_emit(enum log_level l, const char *event, const char *fmt, ...)
    SBX_PRINTF(3, 4);
void log_fatal(const char *event, const char *fmt, ...)
    SBX_PRINTF(2, 3) SBX_NORETURN; /* logs as error and exits with 1 */

#define log_error(ev, ...) log_emit(LOG_ERROR, ev, __VA_ARGS__)
#define log_warn(ev, ...)  log_emit(LOG_WARN, ev, __VA_ARGS__)
#define log_info(ev, ...)  log_emit(LOG_INFO, ev, __VA_ARGS__)
#define log_debug(ev, ...)                                                     \
	do {                                                                   \
		if (log_enabled(LOG_DEBUG))                                    \
			log_emit(LOG_DEBUG, ev, __VA_ARGS__);                  \
	} while (0)
#define log_trace(ev, ...)                                                     \
	do {                                                                   \
		if (log_enabled(LOG_TRACE))                                    \
			log_emit(LOG_TRACE, ev, __VA_ARGS__);                  \
	} while (0)

/* Peer text made safe for one log value: quoted, control and non-ASCII bytes
 * as \xNN, cut at 256 bytes. Valid until the eighth next call in this
 * thread (a small ring), so several fit in one log line. */
const char *log_esc(struct strv v);

/* A gate for what a peer can trigger: true at most `per_second` times a
 * second; on the first pass after a pause *suppressed tells how many were
 * held back. Zeroed is ready. */
struct log_gate {
	int64_t second;
	unsigned count;
	unsigned suppressed;
};
bool log_gate_pass(struct log_gate *g, unsigned per_second,
		   unsigned *suppressed);

#endif
