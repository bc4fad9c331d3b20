/* SPDX-License-Identifier: Apache-2.0 */
/* File names as ssh_config(5) has them. */
#include "config.h"

#include "tunnel/expand.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "tunnel/options.h"

/* Our name or home directory, malloc'ed; NULL when there is no account. */
static char *
account(bool home)
{
	struct passwd pw, *got = NULL;
	char buf[4096];

	if (getpwuid_r(getuid(), &pw, buf, sizeof(buf), &got) != 0 ||
	    got == NULL)
		return NULL;
	return xstrdup(home ? pw.pw_dir : pw.pw_name);
}

char *
expand_own_name(void)
{
	return account(false);
}

static void
expand_token(const struct options *o, char c, const char *home,
	     struct strbuf *b)
{
	char *name;

	switch (c) {
	case 'd':
		strbuf_adds(b, home);
		break;
	case 'h':
		strbuf_adds(b, options_host(o));
		break;
	case 'n':
		strbuf_adds(b, o->host);
		break;
	case 'p':
		strbuf_addf(b, "%u", options_port(o));
		break;
	case 'r':
		strbuf_adds(b, o->user != NULL ? o->user : "");
		break;
	case 'u':
		name = expand_own_name();
		strbuf_adds(b, name != NULL ? name : "");
		free(name);
		break;
	case '%':
		strbuf_addc(b, '%');
		break;
	default:
		strbuf_addc(b, '%');
		strbuf_addc(b, c);
	}
}

char *
expand_path(const struct options *o, const char *s)
{
	const char *env = getenv("HOME");
	char *home = env != NULL ? xstrdup(env) : account(true);
	struct strbuf b = {0};

	if (home == NULL)
		home = xstrdup("/");
	if (s[0] == '~' && (s[1] == '/' || s[1] == '\0')) {
		strbuf_adds(&b, home);
		s++;
	}
	for (; *s != '\0'; s++) {
		if (*s == '%' && s[1] != '\0')
			expand_token(o, *++s, home, &b);
		else
			strbuf_addc(&b, *s);
	}
	free(home);
	return b.s != NULL ? strbuf_take(&b) : xstrdup("");
}
