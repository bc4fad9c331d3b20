/* SPDX-License-Identifier: Apache-2.0 */
/* Who a thread is; see the header. */
#include "config.h"

#include "agent/actas.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Root may exceed quotas and take what is kept in reserve; with a sandbox's
 * files it must not. */
static void
actas_be_meek(struct actas *who)
{
	struct __user_cap_header_struct head = {
	    .version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	if (who->meek || syscall(SYS_capget, &head, caps) != 0)
		return;
	caps[0].effective &= ~(1U << CAP_SYS_RESOURCE);
	who->meek = syscall(SYS_capset, &head, caps) == 0;
}

/* All this is the thread's alone. Setting the user takes the capabilities away
 * with which root passes by permissions, and gives them back. -1 changes
 * nothing, and tells. */
bool
actas_become(struct actas *who, uid_t uid)
{
	uid_t to = uid;
	gid_t group = (gid_t)uid;

	if (who->uid == uid)
		return true;
	if (uid == ACTAS_SELF) {
		to = geteuid();
		group = getegid();
	}
	who->uid = (uid_t)-2; /* nobody knows */
	if (uid != ACTAS_SELF)
		actas_be_meek(who);
	(void)setfsgid(group);
	(void)setfsuid(to);
	if ((uid_t)setfsuid((uid_t)-1) != to ||
	    (gid_t)setfsgid((gid_t)-1) != group)
		return false;
	who->uid = uid;
	return true;
}
