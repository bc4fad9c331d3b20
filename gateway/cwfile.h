/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of the CoreWeave service that move files. */
#ifndef SBX_GATEWAY_CWFILE_H
#define SBX_GATEWAY_CWFILE_H

#define CWFILE_MAX (32U << 20) /* bytes of a file, in either direction */

struct cwcall;

void cwfile_read(struct cwcall *c);  /* ReadFile */
void cwfile_write(struct cwcall *c); /* WriteFile */

#endif
