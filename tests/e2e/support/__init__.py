# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests stand on: programs, clients, inner servers.

    paths    where the built programs are
    gateway  Gateway: one running sbx-gateway (sidecar or configuration file)
    http     Client, get(): a raw HTTP/1.1 client that hides nothing
    ws       WebSocket: a client that can send any frame
    connect  Rpc: a client of the Connect protocol
    coreweave Face, Service, Box: the CoreWeave service as its users see it
    app      App: a server on $SBX_PROXY_DIR/<port>.sock that keeps what it saw
    raw      Backend: judges every byte it is sent; talk(): awkward clients
    wait     until(): wait on a condition, never on the clock
"""
