/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sbx-agent job`: the supervisor of one job (doc/PROTOCOL.md says what is in
 * a job's directory and what is spoken on its job.sock).
 */
#ifndef SBX_AGENT_JOBCMD_H
#define SBX_AGENT_JOBCMD_H

/* The arguments after "job"; returns the exit status. */
int jobcmd_main(int argc, char **argv);

#endif
