/* SPDX-License-Identifier: Apache-2.0 */
/* A job's way out: begun when process 1 is there, waited for a little, and
 * never the end of the job. See jobrun_int.h. */
#include "config.h"

#include "agent/jobrun_int.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/jobnet.h"
#include "net/seqpkt.h"

#define NET_TRY_MS 10
#define NET_MAX_MS 5000

void
jobrun_net_done(struct jobrun *j)
{
	if (j->channel != NULL)
		(void)!seqpkt_send(j->channel, STRV("run"), -1);
}

void
jobrun_net_try_cb(void *arg)
{
	struct jobrun *j = arg;

	if (j->net > 0 && ++j->net_tries < NET_MAX_MS / NET_TRY_MS &&
	    !jobnet_connected(j->init)) {
		timer_set(&j->net_try, NET_TRY_MS);
		return;
	}
	jobrun_net_done(j);
}

void
jobrun_net_connect(struct jobrun *j, int log_fd)
{
	if (j->spec->outbound == NULL || geteuid() != 0) {
		/* Process 1 cannot be looked into: root alone gets at what is
		 * to be connected. */
		jobrun_lack(
		    j, "no outbound network%s",
		    j->spec->outbound != NULL
			? " (only a gateway that runs as root connects it)"
			: "");
		jobrun_net_done(j);
		return;
	}
	j->net = jobnet_start(j->spec->outbound, j->init, log_fd);
	if (j->net == -1)
		jobrun_lack(j, "no outbound network (%s: %s)",
			    j->spec->outbound, strerror(errno));
	/* An agent need not wait for it; a command may want it at once. */
	if (j->spec->argv != NULL)
		jobrun_net_try_cb(j);
	else
		jobrun_net_done(j);
}

/* The job goes on. What they say goes to syslog; the usual cause is told here.
 */
void
jobrun_net_died(struct jobrun *j, int status)
{
	const char *tun = "";

	if (access("/dev/net/tun", R_OK | W_OK) == -1)
		tun = errno == ENOENT ? "; there is no /dev/net/tun"
				      : "; /dev/net/tun cannot be opened";
	joblog_say(j->log, "no outbound network: %s ended (%s %d)%s",
		   j->spec->outbound, WIFSIGNALED(status) ? "signal" : "status",
		   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		   tun);
}
