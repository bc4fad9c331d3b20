/* SPDX-License-Identifier: Apache-2.0 */
/* Tells systemd how we are (sd_notify's protocol, without its library). */
#ifndef SBX_GATEWAY_NOTIFY_H
#define SBX_GATEWAY_NOTIFY_H

/* "READY=1", "RELOADING=1", "STOPPING=1": nothing happens unless
 * NOTIFY_SOCKET is set. */
void notify_send(const char *state);

#endif
