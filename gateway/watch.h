/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells when one of a set of files has changed. Directories are watched with
 * inotify: those that the file and every symbolic link on the way to it
 * (certbot, Kubernetes secrets) stand in. What it cannot see (a network file
 * system) is found by a look four times a minute.
 */
#ifndef SBX_GATEWAY_WATCH_H
#define SBX_GATEWAY_WATCH_H

#include <stdint.h>

struct loop;
struct watch;

/* fn is called when something changed and then stayed as it is for settle_ms,
 * so that a certificate and its key are both written. */
struct watch *watch_new(struct loop *l, uint64_t settle_ms,
			void (*fn)(void *arg), void *arg);
void watch_free(struct watch *w);
void watch_clear(struct watch *w); /* forgets all files */
void watch_add(struct watch *w, const char *path);

#endif
