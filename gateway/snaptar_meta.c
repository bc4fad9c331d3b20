/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of a file beside its content, as it is here and as it is in an
 * archive. Ids are relative there; attributes that hold ids are taken apart.
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/snaptar_int.h"

#define NAMES_MAX      65536 /* the kernel's own bounds */
#define VALUE_MAX      65536
#define PROGRESS_EVERY 512 /* entries */
#define PROGRESS_BYTES (16U << 20)

/* --- ids --------------------------------------------------------------- */
uint32_t
snaptar_id_out(const struct snaptar_options *o, uint64_t id)
{
	return id >= o->base && id - o->base < o->ids ? (uint32_t)(id - o->base)
						      : SNAPTAR_NOBODY;
}

uint32_t
snaptar_id_in(const struct snaptar_options *o, int64_t id)
{
	if (id >= 0 && (uint64_t)id < o->ids)
		return (uint32_t)(o->base + (uint64_t)id);
	/* nobody, or who there is */
	return o->base + (o->ids > SNAPTAR_NOBODY ? SNAPTAR_NOBODY : 0);
}

/* A version, then entries of {tag, permissions, id}, all little-endian. */
static void
acl_ids(const struct snaptar_options *o, unsigned char *v, size_t len, bool out)
{
	enum { ACL_USER = 0x02, ACL_GROUP = 0x08 };
	uint16_t tag;
	uint32_t id;

	for (size_t at = 4; at + 8 <= len; at += 8) {
		memcpy(&tag, v + at, sizeof(tag));
		tag = le16toh(tag);
		if (tag != ACL_USER && tag != ACL_GROUP)
			continue;
		memcpy(&id, v + at + 4, sizeof(id));
		id = le32toh(id);
		id =
		    htole32(out ? snaptar_id_out(o, id) : snaptar_id_in(o, id));
		memcpy(v + at + 4, &id, sizeof(id));
	}
}

/* A capability of a file belongs to the root of a user namespace: the last
 * word of a value of revision 3. */
static void
cap_ids(const struct snaptar_options *o, unsigned char *v, size_t len, bool out)
{
	uint32_t id;

	if (len != 24)
		return;
	memcpy(&id, v + 20, sizeof(id));
	id = le32toh(id);
	id = htole32(out ? snaptar_id_out(o, id) : snaptar_id_in(o, id));
	memcpy(v + 20, &id, sizeof(id));
}

/* --- attributes -------------------------------------------------------- */
static bool
is_overlay(const char *name)
{
	return strncmp(name, "trusted.overlay.", 16) == 0 ||
	       strncmp(name, "user.overlay.", 13) == 0;
}

/* What refers to a file of the lower layer by its handle is good there only. */
static bool
is_wanted(const char *name)
{
	static const char *const lists[] = {"system.posix_acl_access",
					    "system.posix_acl_default",
					    "security.capability"};
	const char *last = strrchr(name, '.');

	if (is_overlay(name))
		return strcmp(last, ".origin") != 0 &&
		       strcmp(last, ".uuid") != 0 &&
		       strcmp(last, ".nlink") != 0;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (strcmp(name, lists[i]) == 0)
			return true;
	return strncmp(name, "user.", 5) == 0 && name[5] != '\0';
}

static void
adapt(const struct snaptar_options *o, const char *name, unsigned char *v,
      size_t len, bool out)
{
	if (strncmp(name, "system.posix_acl_", 17) == 0)
		acl_ids(o, v, len, out);
	else if (strcmp(name, "security.capability") == 0)
		cap_ids(o, v, len, out);
}

int
snaptar_xattrs_get(const struct snaptar_options *o, int fd,
		   struct archive_entry *e)
{
	char *names;
	unsigned char *value;
	ssize_t n, len;

	n = flistxattr(fd, NULL, 0);
	if (n == 0 || (n < 0 && errno == ENOTSUP))
		return 0;
	if (n < 0)
		return E_SYS;
	names = xmalloc(NAMES_MAX + 1);
	value = xmalloc(VALUE_MAX);
	n = flistxattr(fd, names, NAMES_MAX);
	names[n > 0 ? n : 0] = '\0';
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
		if (!is_wanted(names + at) ||
		    (len = fgetxattr(fd, names + at, value, VALUE_MAX)) < 0)
			continue; /* taken away meanwhile, or not for us */
		adapt(o, names + at, value, (size_t)len, true);
		archive_entry_xattr_add_entry(e, names + at, value,
					      (size_t)len);
	}
	free(names);
	free(value);
	return 0;
}

/* libarchive writes what is not plain in a name as in URLs, and reads it as it
 * is there. */
static char *
name_in(const char *text)
{
	char *name = xstrdup(text), *to = name;

	for (const char *p = name; *p != '\0'; to++) {
		int high = *p == '%' ? str_hex_value(p[1]) : -1;
		int low = high >= 0 ? str_hex_value(p[2]) : -1;

		*to = low >= 0 ? (char)(high << 4 | low) : *p;
		p += low >= 0 ? 3 : 1;
	}
	*to = '\0';
	return name;
}

static int
set_one(const struct snaptar_options *o, int fd, const char *name,
	const void *value, size_t len, struct snaptar_counts *n)
{
	unsigned char *own = xmalloc(len + 1);
	int r;

	if (len > 0)
		memcpy(own, value, len);
	adapt(o, name, own, len, false);
	r = fsetxattr(fd, name, own, len, 0);
	free(own);
	if (r == 0)
		return 0;
	/* Without these a deletion would come back. */
	if (is_overlay(name) ||
	    (errno != ENOTSUP && errno != EPERM && errno != EINVAL))
		return E_SYS;
	n->skipped++;
	return 0;
}

int
snaptar_xattrs_set(const struct snaptar_options *o, int fd,
		   struct archive_entry *e, struct snaptar_counts *n)
{
	const char *text;
	const void *value;
	size_t len;
	char *name;
	int r = 0;

	(void)archive_entry_xattr_reset(e);
	while (r == 0 &&
	       archive_entry_xattr_next(e, &text, &value, &len) == ARCHIVE_OK) {
		if (text == NULL || len > VALUE_MAX)
			continue;
		name = name_in(text);
		if (is_wanted(name))
			r = set_one(o, fd, name, value, len, n);
		free(name);
	}
	return r;
}

/* --- bounds and errors ------------------------------------------------- */
int
snaptar_count(const struct snaptar_options *o, struct snaptar_counts *n,
	      uint64_t entries, uint64_t bytes, char **why)
{
	uint64_t was = n->bytes;

	n->entries += entries;
	n->bytes += bytes;
	if (n->entries > o->max_entries) {
		*why = xasprintf("more than %llu files and directories",
				 (unsigned long long)o->max_entries);
		return E_LIMIT;
	}
	if (n->bytes > o->max_bytes) {
		*why = xasprintf("more than %llu bytes of files",
				 (unsigned long long)o->max_bytes);
		return E_LIMIT;
	}
	if (o->progress != NULL &&
	    ((entries != 0 && n->entries % PROGRESS_EVERY == 0) ||
	     n->bytes / PROGRESS_BYTES != was / PROGRESS_BYTES))
		o->progress(n, o->arg);
	return 0;
}

int
snaptar_fail(char **why, int err, const char *path, const char *text)
{
	if (path == NULL)
		*why = xstrdup(text);
	else
		*why = xasprintf("%s: %s", log_esc(strv_of(path)), text);
	return err;
}

int
snaptar_fail_errno(char **why, const char *path, int eno)
{
	int r = err_from_errno(eno);

	return snaptar_fail(why, r == E_FULL ? E_FULL : E_SYS, path,
			    strerror(eno));
}
