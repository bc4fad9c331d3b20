/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive's file: how it is compressed, and every byte of it on its way. No
 * byte is skipped when it is read, since all of them are in its sum.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gateway/snaptar_int.h"

/* --- writing ----------------------------------------------------------- */
static la_ssize_t
write_cb(struct archive *a, void *arg, const void *p, size_t len)
{
	struct snaptar_file *f = arg;
	ssize_t n;

	do {
		n = write(f->fd, p, len);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "cannot be written");
	else if (f->sha != NULL)
		tlssha_add(f->sha, p, (size_t)n);
	return n;
}

static bool
add_zstd(struct archive *a)
{
	return archive_write_add_filter_zstd(a) == ARCHIVE_OK &&
	       archive_write_set_filter_option(a, "zstd", "compression-level",
					       "3") == ARCHIVE_OK;
}

const char *
snaptar_suffix(void)
{
	struct archive *a = archive_write_new();
	bool zstd = a != NULL && add_zstd(a);

	if (a != NULL)
		(void)archive_write_free(a);
	return zstd ? ".tar.zst" : ".tar.gz";
}

/* Names are bytes: nothing is to be looked up in a locale. */
int
snaptar_open_write(struct archive *a, struct snaptar_file *f)
{
	if (strcmp(snaptar_suffix(), ".tar.zst") == 0
		? !add_zstd(a)
		: archive_write_add_filter_gzip(a) != ARCHIVE_OK)
		return ARCHIVE_FATAL;
	if (archive_write_set_format_pax(a) != ARCHIVE_OK ||
	    archive_write_set_format_option(a, "pax", "hdrcharset", "BINARY") !=
		ARCHIVE_OK ||
	    archive_write_set_format_option(a, "pax", "xattrheader",
					    "SCHILY") != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(a, SNAPTAR_BLOCK) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK)
		return ARCHIVE_FATAL;
	return archive_write_open(a, f, NULL, write_cb, NULL);
}

/* --- reading ----------------------------------------------------------- */
static ssize_t
read_piece(struct snaptar_file *f)
{
	ssize_t n;

	do {
		n = read(f->fd, f->buf, SNAPTAR_BLOCK);
	} while (n < 0 && errno == EINTR);
	if (n > 0 && f->sha != NULL)
		tlssha_add(f->sha, f->buf, (size_t)n);
	return n;
}

static la_ssize_t
read_cb(struct archive *a, void *arg, const void **p)
{
	struct snaptar_file *f = arg;
	ssize_t n = read_piece(f);

	if (n < 0)
		archive_set_error(a, errno, "%s", strerror(errno));
	*p = f->buf;
	return n;
}

int
snaptar_open_read(struct archive *a, struct snaptar_file *f)
{
	/* No others: some of them are programs that would be started. */
	if (archive_read_support_filter_gzip(a) < ARCHIVE_WARN ||
	    archive_read_support_filter_zstd(a) < ARCHIVE_WARN ||
	    archive_read_support_format_tar(a) != ARCHIVE_OK)
		return ARCHIVE_FATAL;
	return archive_read_open(a, f, NULL, read_cb, NULL);
}

int
snaptar_read_rest(struct snaptar_file *f)
{
	ssize_t n;

	while ((n = read_piece(f)) > 0)
		;
	return n < 0 ? -1 : 0;
}
