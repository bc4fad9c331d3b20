/* SPDX-License-Identifier: Apache-2.0 */
/* Host key fingerprints and the known_hosts format. */
#include "config.h"

#include "tunnel/hostkey.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/defs.h"
#include "base/mem.h"
#include "tunnel/pattern.h"

#define HASH_LEN     20 /* SHA-1, of the hashed names */
#define KEY_TEXT_MAX 16384

/* One line of the file, cut into its words. */
struct entry {
	unsigned line;
	bool revoked;
	bool authority;
	struct strv hosts;
	struct strv type;
	struct strv key; /* base64 */
};

void
hostkey_print(const void *key, size_t n, char out[HOSTKEY_PRINT_MAX])
{
	unsigned char md[EVP_MAX_MD_SIZE], text[48];
	unsigned len = 0;
	int used;

	memcpy(out, "SHA256:?", sizeof("SHA256:?"));
	if (!EVP_Digest(key, n, md, &len, EVP_sha256(), NULL) || len != 32)
		return;
	used = EVP_EncodeBlock(text, md, (int)len);
	while (used > 0 && text[used - 1] == '=')
		used--;
	memcpy(out + 7, text, (size_t)used);
	out[7 + used] = '\0';
}

struct strv
hostkey_type(const void *key, size_t n)
{
	const unsigned char *p = key;
	size_t len;

	if (n < 4)
		return STRV("");
	len =
	    (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	if (len > n - 4)
		return STRV("");
	return (struct strv){(const char *)p + 4, len};
}

char *
hostkey_name(const char *host, uint16_t port)
{
	char *low = xstrdup(host), *name;

	for (char *p = low; *p != '\0'; p++)
		*p = (char)tolower((unsigned char)*p);
	if (port == 22)
		return low;
	name = xasprintf("[%s]:%u", low, port);
	free(low);
	return name;
}

static struct strv
word_next(struct strv *rest)
{
	struct strv w;
	size_t i = 0;

	while (rest->len > 0 && (*rest->p == ' ' || *rest->p == '\t'))
		*rest = strv_from(*rest, 1);
	while (i < rest->len && rest->p[i] != ' ' && rest->p[i] != '\t' &&
	       rest->p[i] != '\r')
		i++;
	w = (struct strv){rest->p, i};
	*rest = strv_from(*rest, i);
	return w;
}

/* The next line that holds an entry; false at the end. */
static bool
entry_next(struct strv *rest, unsigned *line, struct entry *e)
{
	struct strv l, w;

	while (strv_cut(rest, '\n', &l)) {
		(*line)++;
		*e = (struct entry){.line = *line};
		w = word_next(&l);
		if (w.len == 0 || *w.p == '#')
			continue;
		if (*w.p == '@') {
			e->revoked = strv_eq(w, STRV("@revoked"));
			e->authority = strv_eq(w, STRV("@cert-authority"));
			if (!e->revoked && !e->authority)
				continue;
			w = word_next(&l);
		}
		e->hosts = w;
		e->type = word_next(&l);
		e->key = word_next(&l);
		if (e->key.len > 0)
			return true;
	}
	return false;
}

static bool
base64_decode(struct strv text, unsigned char *out, size_t cap, size_t *n)
{
	int len;

	if (text.len == 0 || text.len % 4 != 0 || text.len / 4 * 3 > cap)
		return false;
	len =
	    EVP_DecodeBlock(out, (const unsigned char *)text.p, (int)text.len);
	if (len < 0)
		return false;
	for (size_t i = text.len; i > 0 && text.p[i - 1] == '='; i--)
		len--;
	*n = (size_t)len;
	return true;
}

/* |1|salt|hash : HMAC-SHA1 of the name under the salt. */
static bool
hashed_match(struct strv h, const char *name)
{
	unsigned char salt[64], want[64], md[EVP_MAX_MD_SIZE];
	struct strv rest = strv_from(h, 3), s;
	size_t nsalt, nwant;
	unsigned len = 0;

	if (!strv_cut(&rest, '|', &s) || rest.p == NULL ||
	    !base64_decode(s, salt, sizeof(salt), &nsalt) ||
	    !base64_decode(rest, want, sizeof(want), &nwant) ||
	    nwant != HASH_LEN)
		return false;
	if (HMAC(EVP_sha1(), salt, (int)nsalt, (const unsigned char *)name,
		 strlen(name), md, &len) == NULL)
		return false;
	return len == HASH_LEN && memcmp(md, want, HASH_LEN) == 0;
}

static bool
hosts_match(struct strv hosts, const char *name)
{
	if (strv_starts(hosts, STRV("|1|")))
		return hashed_match(hosts, name);
	return pattern_list(hosts, ',', strv_of(name));
}

void
hostkey_check(struct strv text, const char *name, const void *key, size_t n,
	      struct hostkey_found *out)
{
	unsigned char *buf = xmalloc(KEY_TEXT_MAX);
	unsigned line = 0;
	struct entry e;
	size_t len;

	memset(out, 0, sizeof(*out));
	while (entry_next(&text, &line, &e)) {
		bool same;

		if (e.authority || !hosts_match(e.hosts, name) ||
		    !base64_decode(e.key, buf, KEY_TEXT_MAX, &len))
			continue;
		same = len == n && memcmp(buf, key, n) == 0;
		if (same && e.revoked) {
			out->verdict = HOSTKEY_REVOKED;
			out->line = e.line;
			break;
		}
		if (e.revoked || out->verdict == HOSTKEY_MATCH)
			continue;
		if (same)
			out->verdict = HOSTKEY_MATCH;
		else if (out->verdict == HOSTKEY_CHANGED &&
			 !strv_eq(hostkey_type(buf, len), hostkey_type(key, n)))
			continue;
		else
			out->verdict = HOSTKEY_CHANGED;
		out->line = e.line;
		hostkey_print(buf, len, out->expected);
	}
	free(buf);
}

void
hostkey_types(struct strv text, const char *name, struct strbuf *out)
{
	unsigned line = 0;
	struct entry e;

	while (entry_next(&text, &line, &e)) {
		if (e.authority || e.revoked || !hosts_match(e.hosts, name))
			continue;
		if (out->len > 0)
			strbuf_addc(out, ',');
		/* an RSA key signs with SHA-2 nowadays */
		if (strv_eq(e.type, STRV("ssh-rsa")))
			strbuf_adds(out, "rsa-sha2-512,rsa-sha2-256,");
		strbuf_addv(out, e.type);
	}
}

char *
hostkey_line(const char *name, const void *key, size_t n)
{
	struct strv type = hostkey_type(key, n);
	unsigned char *b64 = xmalloc(n * 2 + 8);
	char *line;

	EVP_EncodeBlock(b64, key, (int)n);
	line =
	    xasprintf("%s %.*s %s\n", name, STRV_ARG(type), (const char *)b64);
	free(b64);
	return line;
}
