#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The batch script of jobs that Slurm runs:
#
#   [launcher slurm]
#   start  = sbatch --quiet --job-name=sbx-{id} --output={dir}/output --export=NONE /etc/sbx/launch-slurm.sh {dir} {mode} {argv}
#   status = squeue --noheader --states=all --name=sbx-{id} "--Format=State:20,exit_code:10"
#   stop   = scancel --full --name=sbx-{id}
#   register_url = https://gateway.example:8443
#   addresses = 10.0.0.0/8
#
#   [jobs]
#   launcher = slurm
#
# The state directory must be shared with the nodes, and MinJobAge be longer
# than the launcher's `poll`. Agents listen at a port of their node that is free,
# and register; whoever else reaches the node's port needs the agent's token.
set -eu
dir=$1
mode=$2
shift 2
# shellcheck disable=SC1091 # it is the job's
. "$dir/env.sh"
rm -f "$dir/env.sh"
if [ "$mode" = command ]; then
	exec "$@"
fi
host=$(hostname -I | cut -d ' ' -f 1)
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("", 0))
print(s.getsockname()[1])')
curl -fsS --retry 5 -H 'Content-Type: application/json' \
	-d "{\"token\":\"$SBX_REGISTER_TOKEN\",\"address\":\"tcp:$host:$port\"}" \
	"$SBX_REGISTER_URL"
unset SBX_REGISTER_TOKEN SBX_REGISTER_URL
export SBX_LISTEN="tcp:$host:$port"
exec "${SBX_AGENT:-sbx-agent}"
