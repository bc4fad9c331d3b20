# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libnet.a libnettls.a
libnet_a_SOURCES =
libnettls_a_SOURCES =
