/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of user tokens. Writers lock a file beside it and replace it whole,
 * so a reader always sees one complete state.
 */
#include "config.h"

#include "gateway/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/token.h"
#include "gateway/names.h"
#include "net/tlsctx.h"

#define FILE_MAX     (4u << 20)
#define SECRET_CHARS 34 /* of 36: 175 bits */

static const char header[] =
    "# User tokens of sbx-gateway: sha256 name namespace(,namespace) role "
    "created\n"
    "# Edited by `sbx-gateway token add|revoke NAME`.\n";

static bool
role_ok(struct strv v)
{
	return strv_eq(v, STRV("user")) || strv_eq(v, STRV("admin")) ||
	       strv_eq(v, STRV("readonly"));
}

static void
copy_word(char *to, size_t size, struct strv v)
{
	size_t n = v.len < size ? v.len : size - 1;

	memcpy(to, v.p, n);
	to[n] = '\0';
}

static int
parse_row(struct strv line, struct token_row *row)
{
	struct strv w[5], extra;
	uint8_t raw[32];
	size_t n = 0;

	while (n < 5 && strv_cut(&line, ' ', &w[n]))
		n++;
	if (n != 5 || strv_cut(&line, ' ', &extra))
		return E_INVALID;
	if (token_hex_decode(w[0], raw, sizeof(raw)) != 0 || !names_ok(w[1]) ||
	    !names_list_ok(w[2], TOKEN_NS_MAX) || !role_ok(w[3]) ||
	    strv_parse_u64(w[4], INT64_MAX, true, &row->created) != 0)
		return E_INVALID;
	token_hex_encode(row->hash, raw, sizeof(raw));
	copy_word(row->name, sizeof(row->name), w[1]);
	copy_word(row->ns, sizeof(row->ns), w[2]);
	copy_word(row->role, sizeof(row->role), w[3]);
	return 0;
}

static int
parse_all(const char *path, struct strv text, struct token_list *l, char **msg)
{
	struct token_row row;
	struct strv line;
	unsigned no = 0;

	while (strv_cut(&text, '\n', &line)) {
		no++;
		line = strv_trim(line);
		if (line.len == 0 || line.p[0] == '#')
			continue;
		if (parse_row(line, &row) != 0 || l->n == TOKENS_MAX) {
			*msg =
			    xasprintf("%s:%u: %s", path, no,
				      l->n == TOKENS_MAX
					  ? "too many tokens"
					  : "not \"sha256 name namespace role "
					    "created\"");
			return E_INVALID;
		}
		l->v = xreallocarray(l->v, l->n + 1, sizeof(*l->v));
		l->v[l->n++] = row;
	}
	return 0;
}

int
tokens_read(const char *path, struct token_list *out, char **msg)
{
	struct token_list l = {0};
	char *text;
	size_t len;
	int r, eno;

	r = file_read(path, FILE_MAX, &text, &len);
	eno = errno;
	if (r == E_NOTFOUND) {
		*out = l;
		return 0;
	}
	if (r != 0) {
		*msg = xasprintf("%s: %s", path,
				 r == E_SYS ? strerror(eno) : err_text(r));
		return r;
	}
	r = parse_all(path, (struct strv){text, len}, &l, msg);
	free(text);
	if (r != 0)
		tokens_clear(&l);
	else
		*out = l;
	return r;
}

void
tokens_clear(struct token_list *l)
{
	free(l->v);
	l->v = NULL;
	l->n = 0;
}

static int
tokens_write(const char *path, const struct token_list *l, char **msg)
{
	struct strbuf b = {0};
	int r, eno;

	strbuf_adds(&b, header);
	for (size_t i = 0; i < l->n; i++)
		strbuf_addf(&b, "%s %s %s %s %llu\n", l->v[i].hash,
			    l->v[i].name, l->v[i].ns, l->v[i].role,
			    (unsigned long long)l->v[i].created);
	r = file_write_atomic(path, b.s, b.len, 0600);
	eno = errno;
	strbuf_clear(&b);
	if (r != 0)
		*msg = xasprintf("cannot write %s: %s", path,
				 r == E_SYS ? strerror(eno) : err_text(r));
	return r;
}

/* Two editors at once must not lose one another's work. */
static int
lock(const char *path, int *fd, char **msg)
{
	char *name = xasprintf("%s.lock", path);
	int r = 0;

	*fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0 || flock(*fd, LOCK_EX) != 0) {
		*msg = xasprintf("cannot lock %s: %s", name, strerror(errno));
		fd_close(fd);
		r = E_SYS;
	}
	free(name);
	return r;
}

static char *
make_token(char hash[2 * 32 + 1])
{
	char secret[SECRET_CHARS + 1];
	uint8_t raw[32];
	char *token;

	token_label(secret, SECRET_CHARS);
	token = xasprintf("hf_%s", secret);
	tls_sha256(token, strlen(token), raw);
	token_hex_encode(hash, raw, sizeof(raw));
	mem_secure_zero(secret, sizeof(secret));
	return token;
}

int
tokens_add(const char *path, const char *name, const char *ns, const char *role,
	   char **token, char **msg)
{
	struct token_list l = {0};
	struct token_row row = {.created = (uint64_t)time(NULL)};
	char *secret;
	int fd, r;

	if (!names_ok(strv_of(name)) ||
	    !names_list_ok(strv_of(ns), TOKEN_NS_MAX) ||
	    !role_ok(strv_of(role))) {
		*msg = xstrdup("a name is 1-64 of a-z A-Z 0-9 - _ . @, "
			       "namespaces are such names with commas between "
			       "them, a role is user, admin or readonly");
		return E_INVALID;
	}
	if ((r = lock(path, &fd, msg)) != 0)
		return r;
	secret = make_token(row.hash);
	if ((r = tokens_read(path, &l, msg)) == 0) {
		copy_word(row.name, sizeof(row.name), strv_of(name));
		copy_word(row.ns, sizeof(row.ns), strv_of(ns));
		copy_word(row.role, sizeof(row.role), strv_of(role));
		l.v = xreallocarray(l.v, l.n + 1, sizeof(*l.v));
		l.v[l.n++] = row;
		r = tokens_write(path, &l, msg);
	}
	fd_close(&fd);
	tokens_clear(&l);
	if (r != 0)
		mem_free_secret(secret);
	else
		*token = secret;
	return r;
}

int
tokens_revoke(const char *path, const char *name, size_t *n, char **msg)
{
	struct token_list l = {0};
	size_t kept = 0, gone = 0;
	int fd, r;

	if ((r = lock(path, &fd, msg)) != 0)
		return r;
	if ((r = tokens_read(path, &l, msg)) == 0) {
		for (size_t i = 0; i < l.n; i++)
			if (strcmp(l.v[i].name, name) != 0)
				l.v[kept++] = l.v[i];
		gone = l.n - kept;
		l.n = kept;
		if (gone != 0)
			r = tokens_write(path, &l, msg);
	}
	fd_close(&fd);
	tokens_clear(&l);
	if (r == 0)
		*n = gone;
	return r;
}
