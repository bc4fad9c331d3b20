#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs by unshare(1), as an example of what a launcher's commands do:
#
#   [launcher unshare]
#   start  = /etc/sbx/launch-unshare.sh start {id} {dir} {mode} {argv}
#   status = /etc/sbx/launch-unshare.sh status {id} {dir}
#   stop   = /etc/sbx/launch-unshare.sh stop {id} {dir} {grace}
#   remove = /etc/sbx/launch-unshare.sh remove {id} {dir}
#   agent  = unix:{dir}/agent.sock
#
#   [jobs]
#   launcher = unshare
#
# {dir}/env.sh holds the environment, secrets and all, for a shell. What is
# written to {dir}/output ends up in the job's log. This is no sandbox: the job has process and mount namespaces, and runs as the gateway
# does. `launcher = local` is better in every way.
set -eu
verb=$1
dir=$3
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}"

alive() {
	[ -f "$dir/run/pid" ] && kill -0 "$(cat "$dir/run/pid")" 2> /dev/null
}

case $verb in
start)
	mode=$4
	shift 4
	mkdir -m 700 "$dir/run"
	(
		# shellcheck source=/dev/null # what the gateway wrote
		. "$dir/env.sh"
		rm -f "$dir/env.sh"
		export SBX_LISTEN="unix:$dir/agent.sock"
		[ "$mode" = command ] || set -- "${SBX_AGENT:-sbx-agent}"
		code=0
		setsid unshare --fork --pid --mount --mount-proc --kill-child \
			-- "$@" < /dev/null > "$dir/output" 2>&1 &
		echo $! > "$dir/run/pid"
		wait $! || code=$?
		echo "$code" > "$dir/run/code.new"
		mv "$dir/run/code.new" "$dir/run/code"
	) < /dev/null > /dev/null 2>&1 &
	;;
status)
	if [ -f "$dir/run/code" ]; then
		echo "exited $(cat "$dir/run/code")"
	elif alive; then
		echo running
	else
		echo pending
	fi
	;;
stop)
	alive || exit 0
	pid=$(cat "$dir/run/pid")
	pkill -TERM -P "$pid" || true
	n=$(($4 * 10))
	while [ "$n" -gt 0 ] && alive; do
		sleep 0.1
		n=$((n - 1))
	done
	kill -KILL "$pid" 2> /dev/null || true
	;;
remove)
	rm -rf "$dir/run"
	;;
esac
