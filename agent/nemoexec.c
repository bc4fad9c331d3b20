/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /exec: a whole command in one answer. Its group is killed at its
 * timeout, and what it wrote until then is in the answer; what it left in the
 * background is not waited for. A client that goes away leaves it running: it
 * would send the same command again otherwise, and have it half done.
 */
#include "config.h"

#include "agent/nemo_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define NEMOEXEC_TIMEOUT     300
#define NEMOEXEC_TIMEOUT_MAX 1e9
#define NEMOEXEC_TIMED_OUT   124
#define NEMOEXEC_NUMBER      40 /* bytes of a number that are repeated */

struct nemoexec {
	struct nemo_call *c;
	struct run *run;
	struct strbuf out[2];
	uint64_t dropped[2];
	size_t held;
	char *timeout; /* as it was written */
};

static void
nemoexec_free(struct nemoexec *x)
{
	x->c->n->held -= x->held;
	strbuf_clear(&x->out[0]);
	strbuf_clear(&x->out[1]);
	free(x->timeout);
	free(x);
}

static void
nemoexec_answer(struct nemo_call *c, struct strv out, struct strv err, int rc)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"stdout\": ");
	strbuf_add_json(&b, out);
	strbuf_adds(&b, ", \"stderr\": ");
	strbuf_add_json(&b, err);
	strbuf_addf(&b, ", \"rc\": %d}", rc);
	nemo_answer(c, 200, &b);
}

static void
nemoexec_fail(struct nemo_call *c, const char *why)
{
	nemoexec_answer(c, STRV(""), strv_of(why), -1);
}

/* --- the command ------------------------------------------------------- */

static void
nemoexec_output_cb(struct run *r, unsigned stream, const char *data, size_t n,
		   void *arg)
{
	struct nemoexec *x = arg;

	(void)r;
	if (x->dropped[stream] > 0 || x->out[stream].len + n > NEMO_OUT_MAX ||
	    !nemo_hold(x->c->n, n)) {
		x->dropped[stream] += n;
		return;
	}
	x->held += n;
	strbuf_add(&x->out[stream], data, n);
}

/* A line of ours at the end of stderr. */
static void
nemoexec_say(struct nemoexec *x, char *line)
{
	struct strbuf *b = &x->out[1];

	if (b->len > 0 && b->s[b->len - 1] != '\n')
		strbuf_addc(b, '\n');
	strbuf_adds(b, line);
	free(line);
}

static void
nemoexec_exited_cb(struct run *r, const struct proc_exit *px, void *arg)
{
	static const char *const names[] = {"stdout", "stderr"};
	struct nemoexec *x = arg;
	struct nemo_call *c = x->c;
	int rc = px->timed_out    ? NEMOEXEC_TIMED_OUT
		 : px->signal > 0 ? -px->signal
				  : px->code;

	run_release(r, false);
	for (unsigned i = 0; i < 2; i++) {
		if (x->dropped[i] > 0)
			nemoexec_say(
			    x, xasprintf("%llu bytes of %s left out\n",
					 (unsigned long long)x->dropped[i],
					 names[i]));
	}
	if (px->timed_out)
		nemoexec_say(x, xasprintf("timed out after %ss", x->timeout));
	c->on_closed = NULL;
	nemoexec_answer(c, (struct strv){x->out[0].s, x->out[0].len},
			(struct strv){x->out[1].s, x->out[1].len}, rc);
	nemoexec_free(x);
}

static const struct run_cbs nemoexec_run_cbs = {
    .output = nemoexec_output_cb,
    .exited = nemoexec_exited_cb,
};

static void
nemoexec_closed(struct nemo_call *c)
{
	struct nemoexec *x = c->state;

	run_release(x->run, true);
	nemoexec_free(x);
}

/* --- the request ------------------------------------------------------- */

/* The number behind the key, as it stands in the text; empty: none. A string
 * that reads like the key has a backslash before its quotes. */
static struct strv
nemoexec_number(struct strv body)
{
	static const char key[] = "\"timeout\"", digits[] = "+-.0123456789eE";
	struct strv v = STRV_NULL;
	const char *p = NULL;

	if (body.len > 0)
		p = memmem(body.p, body.len, key, sizeof(key) - 1);
	if (p == NULL)
		return v;
	v = strv_from(body, (size_t)(p - body.p) + sizeof(key) - 1);
	while (v.len > 0 && memchr(" \t\r\n:", *v.p, 5) != NULL)
		v = strv_from(v, 1);
	for (size_t n = 0; n < v.len; n++) {
		if (memchr(digits, v.p[n], sizeof(digits) - 1) == NULL)
			v.len = n;
	}
	if (v.len > NEMOEXEC_NUMBER)
		v.len = NEMOEXEC_NUMBER;
	return v;
}

/* Python prints a whole number as it was written, and one with a point or an
 * exponent in its shortest form, but never without a point. */
char *
nemo_timeout_text(struct strv body)
{
	struct strv v = nemoexec_number(body);
	char *text = xstrndup(v.len > 0 ? v.p : "", v.len), *out;

	if (text[strcspn(text, ".eE")] == '\0') {
		if (v.len > 0)
			return text;
		free(text);
		return xasprintf("%d", NEMOEXEC_TIMEOUT);
	}
	out = xasprintf("%.15g", strtod(text, NULL));
	free(text);
	if (out[strcspn(out, ".e")] != '\0')
		return out;
	text = xasprintf("%s.0", out);
	free(out);
	return text;
}

/* False when it was answered. */
static bool
nemoexec_timeout(struct nemo_call *c, const struct json *v, double *seconds)
{
	*seconds = NEMOEXEC_TIMEOUT;
	if (v == NULL)
		return true;
	if (json_type(v) == JSON_NULL) {
		*seconds = 0;
		return true;
	}
	if (json_number(v, seconds) != 0) {
		nemoexec_fail(c, "timeout: not a number");
		return false;
	}
	/* It is over before it begins. */
	if (!(*seconds > 0))
		*seconds = 0.001;
	if (*seconds > NEMOEXEC_TIMEOUT_MAX)
		*seconds = NEMOEXEC_TIMEOUT_MAX;
	return true;
}

static void
nemoexec_start(struct nemo_call *c, const char *cmd, double seconds,
	       char *timeout)
{
	static char dash_c[] = "-c";
	char *argv[] = {c->n->shell, dash_c, (char *)(uintptr_t)cmd, NULL};
	const struct run_spec spec = {
	    .argv = argv,
	    .cmd = "", /* nobody is shown it */
	    .timeout_ms = (uint64_t)ceil(seconds * 1000),
	};
	struct nemoexec *x = xcalloc(1, sizeof(*x));
	char *why = NULL;

	x->c = c;
	x->timeout = timeout;
	if (run_start(&c->n->o.root->runs, &spec, &nemoexec_run_cbs, x, &x->run,
		      &why) != 0) {
		nemoexec_fail(c, why);
		free(why);
		nemoexec_free(x);
		return;
	}
	c->state = x;
	c->on_closed = nemoexec_closed;
}

void
nemo_exec(struct nemo_call *c)
{
	struct strv body = {c->body.s, c->body.len};
	char *said = nemo_timeout_text(body);
	struct json_doc *doc = nemo_json(body);
	const struct json *cmd = json_get(json_root(doc), "cmd");
	const struct json *timeout = json_get(json_root(doc), "timeout");
	double seconds;

	if (cmd == NULL || json_type(cmd) == JSON_NULL ||
	    (json_string(cmd) != NULL && *json_string(cmd) == '\0')) {
		nemo_error(c, 400, "missing 'cmd'");
	} else if (json_string(cmd) == NULL) {
		nemoexec_fail(c, "cmd: not a string");
	} else if (nemoexec_timeout(c, timeout, &seconds)) {
		nemoexec_start(c, json_string(cmd), seconds, said);
		said = NULL;
	}
	free(said);
	json_doc_free(doc);
}
