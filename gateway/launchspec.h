/* SPDX-License-Identifier: Apache-2.0 */
/* spec.json and exit.json of a job's directory, as the gateway sees them. */
#ifndef SBX_GATEWAY_LAUNCHSPEC_H
#define SBX_GATEWAY_LAUNCHSPEC_H

#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/launch.h"
#include "gateway/launchconf.h"

/* What the launcher adds to a spec. */
struct launchspec_place {
	const struct gw_launch *conf;
	const char *outbound; /* NULL: none */
	uid_t uid;            /* 0: none to give */
	unsigned slot;
	uid_t worker_uid;
};

/* Adds the text of spec.json. The buffer then holds secrets. */
void launchspec_add(struct strbuf *b, const struct launch_spec *s,
		    const struct launchspec_place *p);

/* Text of the file `layout`, malloc'ed: "UID UIDS ROOTFS". */
char *launchspec_layout(const struct launch_spec *s,
			const struct launchspec_place *p);

struct launchspec_end {
	struct launch_end end;
	char message[LAUNCH_TEXT];
};

/* Reads DIR/exit.json; E_NOTFOUND, E_INVALID. end.message is in *out. */
int launchspec_read_end(const char *dir,
			struct launchspec_end *out) SBX_MUST_CHECK;

#endif
