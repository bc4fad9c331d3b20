#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What runs first in a container of launch-podman.conf.
mode=$1
shift
if [ "$mode" = command ]; then
	exec "$@" > /run/sbx/output 2>&1
fi
SBX_LISTEN=unix:/run/sbx/agent.sock exec /sbx-agent > /run/sbx/output 2>&1
