/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines with placeholders; see the header. */
#include "config.h"

#include "gateway/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct words {
	char **v;
	size_t n, cap;
};

static void
push(struct words *w, char *word)
{
	if (w->n + 1 >= w->cap) {
		w->cap = w->cap != 0 ? 2 * w->cap : 16;
		w->v = xreallocarray(w->v, w->cap, sizeof(*w->v));
	}
	w->v[w->n++] = word;
	w->v[w->n] = NULL;
}

/* Length of "{name}" at p; 0: that is none. */
static size_t
placeholder(const char *p)
{
	size_t n = 1;

	if (*p != '{')
		return 0;
	while ((p[n] >= 'a' && p[n] <= 'z') || p[n] == '_')
		n++;
	return n > 1 && p[n] == '}' ? n + 1 : 0;
}

static const struct template_var *
find(const struct template_var *vars, size_t n, struct strv name)
{
	for (size_t i = 0; i < n; i++)
		if (strv_eq(strv_of(vars[i].name), name))
			return &vars[i];
	return NULL;
}

struct expansion {
	const struct template_var *vars;
	size_t n;
	struct words words;
	struct strbuf word;
	bool begun;
	char **why;
};

static void
end_word(struct expansion *x)
{
	if (x->begun)
		push(&x->words,
		     x->word.s != NULL ? strbuf_take(&x->word) : xstrdup(""));
	x->begun = false;
}

static int
put_value(struct expansion *x, struct strv name, bool alone)
{
	const struct template_var *v = find(x->vars, x->n, name);

	if (v == NULL || (v->value == NULL && !alone)) {
		*x->why = xasprintf(v == NULL ? "{%.*s}: there is no such value"
					      : "{%.*s}: must be a whole word",
				    STRV_ARG(name));
		return E_INVALID;
	}
	if (v->value != NULL) {
		strbuf_adds(&x->word, v->value);
		x->begun = true;
		return 0;
	}
	for (size_t i = 0; i < v->nlist; i++)
		push(&x->words, xstrdup(v->list[i]));
	return 0;
}

static int
expand(struct expansion *x, const char *p)
{
	bool quoted = false;
	size_t n;
	int r;

	for (; *p != '\0'; p++) {
		if (*p == '"') {
			quoted = !quoted;
			x->begun = true;
		} else if ((*p == ' ' || *p == '\t') && !quoted) {
			end_word(x);
		} else if ((n = placeholder(p)) != 0) {
			bool alone = !x->begun && !quoted &&
				     (p[n] == '\0' || p[n] == ' ');

			r = put_value(x, (struct strv){p + 1, n - 2}, alone);
			if (r != 0)
				return r;
			p += n - 1;
		} else {
			strbuf_addc(&x->word, *p);
			x->begun = true;
		}
	}
	end_word(x);
	if (!quoted && x->words.n > 0)
		return 0;
	*x->why = xstrdup(quoted ? "a quote does not end" : "has no word");
	return E_INVALID;
}

int
template_expand(const char *line, const struct template_var *vars, size_t n,
		char ***argv, char **why)
{
	struct expansion x = {.vars = vars, .n = n, .why = why};
	int r = expand(&x, line);

	strbuf_clear(&x.word);
	if (r != 0) {
		template_free(x.words.v);
		return r;
	}
	*argv = x.words.v;
	return 0;
}

void
template_free(char **argv)
{
	for (size_t i = 0; argv != NULL && argv[i] != NULL; i++)
		free(argv[i]);
	free(argv);
}
