/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a context, and the choice of one. */
#include "config.h"

#include "agent/repl_int.h"

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

void
repl_child_cb(struct interp *child, void *arg)
{
	struct repl *r = arg, *made;
	struct repl_call *c = r->first;
	char name[REPL_NAME_MAX + 16];

	if (!repl_asked(r, REPL_FORK) || c->n == 0 ||
	    r->set->n >= REPL_CONTEXTS_MAX) {
		interp_set_cbs(child, &repl_interp_cbs, r);
		interp_free(child);
		return;
	}
	c->n--;
	do
		(void)snprintf(name, sizeof(name), "%.50s-%u", r->name,
			       ++r->forks);
	while (repl_find(r->set, strv_of(name)) != NULL);
	made = repl_new(r->set, strv_of(name));
	made->in = child;
	made->parent = xstrdup(r->name);
	interp_set_cbs(child, &repl_interp_cbs, made);
	if (c->children.len > 0)
		strbuf_addc(&c->children, ',');
	strbuf_addf(&c->children, "\"%s\"", name);
}

void
repl_forked_cb(struct strv json, void *arg)
{
	struct repl *r = arg;
	struct repl_end e = {.code = 0};
	struct strbuf b = {0};

	if (!repl_asked(r, REPL_FORK))
		return;
	strbuf_addf(&b, "{\"children\":[%.*s],\"fork\":%.*s}",
		    (int)r->first->children.len,
		    r->first->children.s != NULL ? r->first->children.s : "",
		    STRV_ARG(json));
	e.json = (struct strv){b.s, b.len};
	repl_end_first(r, &e);
	strbuf_clear(&b);
}

int
repl_merge(struct repl_set *s, struct strv context, struct strv winner)
{
	struct repl *r = repl_find(s, context), *w = repl_find(s, winner);

	if (r == NULL || w == NULL || w->in == NULL)
		return E_NOTFOUND;
	if (r == w)
		return E_INVALID;
	if (r->first != NULL || w->first != NULL)
		return E_BUSY;
	if (interp_has_view(w->in) &&
	    (r->in == NULL || !interp_has_view(r->in)))
		return E_AGAIN;
	interp_free(r->in);
	repl_late_clear(r);
	r->in = w->in;
	interp_set_cbs(r->in, &repl_interp_cbs, r);
	w->in = NULL;
	repl_free(w);
	return 0;
}
