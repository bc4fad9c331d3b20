/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing by uid. kill(-1) visits every process under the lock that fork
 * needs too, so that not even a fork bomb gets away. A sender reaches what its
 * real or effective uid matches, a target is judged by its real and saved uid:
 * with real = reaper, effective = the user, saved = root, we reach the user's
 * processes only, they do not reach us, and we can come back.
 */
#include "config.h"

#include "agent/uidkill.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"

int
uidkill(uid_t reaper, uid_t uid, pid_t target, int sig)
{
	int r, eno, death = 0;

	if (reaper == 0 || uid == 0 || geteuid() != 0)
		return E_DENIED;
	(void)prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
	/* Raw calls: this thread alone, and no handler runs in between that
	 * could depend on who we are. */
	if (syscall(SYS_setresuid, reaper, uid, 0) != 0)
		return E_SYS;
	r = kill(target, sig);
	eno = errno;
	if (syscall(SYS_setresuid, 0, 0, 0) != 0)
		log_fatal("uidkill", "reason=\"cannot become root again\"");
	if (death != 0) /* changing the uid clears it */
		(void)prctl(PR_SET_PDEATHSIG, death, 0, 0, 0);
	return r == 0 ? 0 : eno == ESRCH ? E_NOTFOUND : err_from_errno(eno);
}

bool
uidkill_alive(uid_t uid)
{
	errno = 0;
	return getpriority(PRIO_USER, uid) != -1 || errno != ESRCH;
}
