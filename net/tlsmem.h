/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where OpenSSL's record buffers live. It takes and frees a buffer of 16 KiB
 * around each record (SSL_MODE_RELEASE_BUFFERS); in the common heap the holes
 * that they leave between small, lasting objects cost twice the memory of the
 * connections themselves. Here they come from two pools of equal pieces, last
 * in, first out, so they are also warm.
 */
#ifndef SBX_NET_TLSMEM_H
#define SBX_NET_TLSMEM_H

/* Before the process's first use of OpenSSL, else it has no effect. Cheap to
 * call again. */
void tlsmem_init(void);

#endif
