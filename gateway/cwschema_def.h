/* SPDX-License-Identifier: Apache-2.0 */
/* How cwschema*.c write their tables. */
#ifndef SBX_GATEWAY_CWSCHEMA_DEF_H
#define SBX_GATEWAY_CWSCHEMA_DEF_H

#include "gateway/cwschema.h"

/* clang-format off */
#define FIELD(num, name, type, label, oneof, msg, words) \
	{name, num, CWMSG_##type, CWMSG_##label, oneof, msg, words}

#define F(num, name, type)    FIELD(num, name, type, PLAIN, 0, NULL, NULL)
#define OPT(num, name, type)  FIELD(num, name, type, OPTIONAL, 0, NULL, NULL)
#define REP(num, name, type)  FIELD(num, name, type, REPEATED, 0, NULL, NULL)
#define ONE(num, name, type)  FIELD(num, name, type, OPTIONAL, 1, NULL, NULL)
#define MAP(num, name)        FIELD(num, name, MAP, PLAIN, 0, NULL, NULL)
#define WORD(num, name, words) \
	FIELD(num, name, ENUM, PLAIN, 0, NULL, &cwschema_##words)
#define ONE_ENUM(num, name, words) \
	FIELD(num, name, ENUM, OPTIONAL, 1, NULL, &cwschema_##words)
#define MSG(num, name, msg) \
	FIELD(num, name, MSG, OPTIONAL, 0, &cwschema_##msg, NULL)
#define ONE_MSG(num, name, msg) \
	FIELD(num, name, MSG, OPTIONAL, 1, &cwschema_##msg, NULL)
#define REP_MSG(num, name, msg) \
	FIELD(num, name, MSG, REPEATED, 0, &cwschema_##msg, NULL)

#define ENUM(id) \
	const struct cwmsg_enum cwschema_##id = { \
	    id##_words, ARRAY_LEN(id##_words)}
#define DESC(id, name) \
	const struct cwmsg_desc cwschema_##id = { \
	    name, id##_fields, ARRAY_LEN(id##_fields)}
#define EMPTY(id, name) \
	const struct cwmsg_desc cwschema_##id = {name, NULL, 0}
/* clang-format on */

#endif
