# SPDX-License-Identifier: Apache-2.0
"""Applications that behave like well-known ones where that hurts behind a
proxy: absolute URLs, checks of Host, Origin and XSRF cookies, a WebSocket with
a subprotocol."""
