/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine lets host mode do; see the header. */
#include "config.h"

#include "agent/hostcheck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/sandbox.h"
#include "base/err.h"
#include "base/mem.h"

/* "/<id>/.sbx/proxy/65535.sock" and its NUL. */
#define HOSTCHECK_TAIL (1 + SANDBOX_ID_LEN + 12 + 11 + 1)

const char *
hostcheck_word(bool uids, bool landlock)
{
	if (uids)
		return landlock ? "full" : "uid";
	return landlock ? "landlock" : "none";
}

int
hostcheck_isolation(int abi, bool best_effort, char **why)
{
	const char *lack = NULL;

	if (geteuid() != 0)
		lack = "it needs root, to give each sandbox a user of its own";
	else if (abi == 0)
		lack = "this kernel has no Landlock (5.13 or later, with "
		       "\"landlock\" among its security modules)";
	if (lack == NULL || best_effort)
		return 0;
	*why =
	    xasprintf("%s; SBX_ISOLATION=best-effort makes do with less", lack);
	return E_UNSUPPORTED;
}

int
hostcheck_homes(const char *homes, char **why)
{
	char *path = xstrdup(homes), *slash;
	struct stat sb;
	int r = 0;

	if (strlen(homes) + HOSTCHECK_TAIL >
	    sizeof(((struct sockaddr_un *)0)->sun_path)) {
		*why =
		    xasprintf("SBX_HOMES=%s: too long for socket paths", homes);
		free(path);
		return E_LIMIT;
	}
	while (r == 0 && *path != '\0') {
		if (stat(path, &sb) != 0 || (sb.st_mode & S_IXOTH) == 0) {
			*why = xasprintf("SBX_HOMES=%s: sandboxes cannot get "
					 "there, since %s lets no other users "
					 "through (chmod o+x)",
					 homes, path);
			r = E_DENIED;
		}
		slash = strrchr(path, '/');
		if (slash == NULL)
			break;
		*slash = '\0';
	}
	free(path);
	return r;
}
