/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing up after others; see the header. */
#include "config.h"

#include "agent/leftover.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "agent/sandbox.h"
#include "agent/uidkill.h"
#include "agent/uidpool.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"

#define LEFTOVER_KILLS 1000 /* one a millisecond */

/* --- System V IPC ------------------------------------------------------ */

static bool
leftover_is(const struct ipc_perm *p, uid_t uid)
{
	return p->uid == uid || p->cuid == uid;
}

static void
leftover_shm(uid_t uid)
{
	struct shm_info info;
	struct shmid_ds ds;
	/* The structure that comes depends on the question. */
	int max = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info), id;

	for (int i = 0; i <= max; i++) {
		id = shmctl(i, SHM_STAT, &ds);
		if (id != -1 && leftover_is(&ds.shm_perm, uid))
			(void)shmctl(id, IPC_RMID, NULL);
	}
}

static void
leftover_msg(uid_t uid)
{
	struct msginfo info;
	struct msqid_ds ds;
	int max = msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&info), id;

	for (int i = 0; i <= max; i++) {
		id = msgctl(i, MSG_STAT, &ds);
		if (id != -1 && leftover_is(&ds.msg_perm, uid))
			(void)msgctl(id, IPC_RMID, NULL);
	}
}

/* The caller has to define it: semctl(2). */
union semun {
	int val;
	struct semid_ds *buf;
	struct seminfo *info;
};

static void
leftover_sem(uid_t uid)
{
	struct seminfo info;
	struct semid_ds ds;
	union semun arg = {.info = &info};
	int max = semctl(0, 0, SEM_INFO, arg), id;

	arg.buf = &ds;
	for (int i = 0; i <= max; i++) {
		id = semctl(i, 0, SEM_STAT, arg);
		if (id != -1 && leftover_is(&ds.sem_perm, uid))
			(void)semctl(id, 0, IPC_RMID);
	}
}

/* As that user, because root without CAP_SYS_ADMIN may not. Raw calls: this
 * thread alone. Nobody can signal it meanwhile: its real and saved uid stay. */
void
leftover_ipc(uid_t uid)
{
	int death = 0;

	(void)prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
	if (syscall(SYS_setresuid, -1, uid, -1) != 0)
		return;
	leftover_shm(uid);
	leftover_msg(uid);
	leftover_sem(uid);
	if (syscall(SYS_setresuid, -1, 0, -1) != 0)
		log_fatal("leftover", "reason=\"cannot become root again\"");
	if (death != 0) /* changing the uid clears it */
		(void)prctl(PR_SET_PDEATHSIG, death, 0, 0, 0);
}

/* --- homes ------------------------------------------------------------- */

static void
leftover_kill(uid_t reaper, uid_t uid)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	for (int i = 0; i < LEFTOVER_KILLS && uidkill_alive(uid); i++) {
		if (uidkill(reaper, uid, -1, SIGKILL) == E_DENIED)
			break;
		(void)nanosleep(&ms, NULL);
	}
	leftover_ipc(uid);
}

/* Only a uid that we can have for ourselves: with its last owner dead, another
 * agent may have given it to a sandbox that lives. */
static void
leftover_owner(struct uidpool *uids, uid_t reaper, uid_t uid)
{
	if (uidpool_claim(uids, uid) != 0)
		return;
	if (uidkill_alive(uid))
		log_warn("host.leftover", "uid=%ld action=kill", (long)uid);
	leftover_kill(reaper, uid);
	uidpool_return(uids, uid);
}

static void
leftover_home(int homes_fd, const char *name, struct uidpool *uids,
	      uid_t reaper)
{
	struct stat sb;

	log_warn("host.leftover", "home=%s", log_esc(strv_of(name)));
	if (uids != NULL &&
	    fstatat(homes_fd, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
		leftover_owner(uids, reaper, sb.st_uid);
	if (rmtree(homes_fd, name) != 0)
		log_warn("host.leftover", "home=%s error=\"not removed\"",
			 log_esc(strv_of(name)));
}

void
leftover_homes(int homes_fd, struct uidpool *uids, uid_t reaper)
{
	int fd = openat(homes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d == NULL) {
		fd_close(&fd);
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.' && e->d_type == DT_DIR &&
		    strlen(e->d_name) == SANDBOX_ID_LEN)
			leftover_home(homes_fd, e->d_name, uids, reaper);
	}
	(void)closedir(d);
}
