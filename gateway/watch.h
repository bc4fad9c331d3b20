/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells when one of a set of files has changed. It looks once a second:
 * inotify sees a directory, not the file that a chain of symbolic links
 * (certbot, Kubernetes secrets) leads to in the end.
 */
#ifndef SBX_GATEWAY_WATCH_H
#define SBX_GATEWAY_WATCH_H

struct loop;
struct watch;

/* fn is called when something changed and then stayed as it is for a whole
 * interval, so that a certificate and its key are both written. */
struct watch *watch_new(struct loop *l, void (*fn)(void *arg), void *arg);
void watch_free(struct watch *w);
void watch_clear(struct watch *w); /* forgets all files */
void watch_add(struct watch *w, const char *path);

#endif
