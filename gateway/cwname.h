/* SPDX-License-Identifier: Apache-2.0 */
/* What the CoreWeave service is called on the wire. */
#ifndef SBX_GATEWAY_CWNAME_H
#define SBX_GATEWAY_CWNAME_H

#define CWSVC_NAME "coreweave.sandbox.v1.SandboxService"

#endif
