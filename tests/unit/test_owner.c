/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of the route table: whatever is published makes a replica that
 * equals the owner's table, also over reloads, tokens and a dead agent. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/owner.h"
#include "net/tlsctx.h"

struct fixture {
	struct owner *owner;
	struct route_table *replica;
	struct gw_conf *conf;
	unsigned messages;
};

static void
emit(struct strv msg, void *arg)
{
	struct fixture *f = arg;

	f->messages++;
	assert_int_equal(route_apply(f->replica, msg), 0);
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->owner = owner_new(emit, f);
	f->replica = route_new();
	f->conf = gwconf_new();
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	owner_free(f->owner);
	route_free(f->replica);
	gwconf_free(f->conf);
	free(f);
	return 0;
}

static void
add_conf(struct gw_conf *c, const char *name, const char *token)
{
	struct gw_sandbox_conf *s;

	c->sandboxes =
	    xreallocarray(c->sandboxes, c->nsandboxes + 1, sizeof(*s));
	s = &c->sandboxes[c->nsandboxes++];
	memset(s, 0, sizeof(*s));
	s->name = xstrdup(name);
	s->token = xstrdup(token);
}

static void
assert_token(const struct route_sandbox *s, const char *token)
{
	uint8_t raw[32];

	assert_non_null(s);
	assert_true(s->has_token);
	tls_sha256(token, strlen(token), raw);
	assert_memory_equal(s->token_hash, raw, sizeof(raw));
}

static void
configured(void **state)
{
	struct fixture *f = *state;
	const struct route_sandbox *s;
	uint64_t generation;

	add_conf(f->conf, "", "one");
	add_conf(f->conf, "web", "two");
	owner_set_conf(f->owner, f->conf);
	assert_token(route_lookup(f->replica, STRV("")), "one");
	s = route_lookup(f->replica, STRV("web"));
	assert_token(s, "two");
	generation = s->generation;

	/* Another secret: the same sandbox. */
	mem_free_secret(f->conf->sandboxes[1].token);
	f->conf->sandboxes[1].token = xstrdup("three");
	owner_set_conf(f->owner, f->conf);
	s = route_lookup(f->replica, STRV("web"));
	assert_token(s, "three");
	assert_int_equal(s->generation, generation);

	/* Taken out, and put back: another one. */
	free(f->conf->sandboxes[1].name);
	f->conf->sandboxes[1].name = xstrdup("other");
	owner_set_conf(f->owner, f->conf);
	assert_true(route_lookup(f->replica, STRV("web"))->gone);
	assert_false(route_lookup(f->replica, STRV("other"))->gone);
	free(f->conf->sandboxes[1].name);
	f->conf->sandboxes[1].name = xstrdup("web");
	owner_set_conf(f->owner, f->conf);
	s = route_lookup(f->replica, STRV("web"));
	assert_false(s->gone);
	assert_int_not_equal(s->generation, generation);
}

static void
copy(struct strv msg, void *arg)
{
	assert_int_equal(route_apply(arg, msg), 0);
}

/* Agents on other machines: down and up with a reason, in every copy. */
static void
far_agents(void **state)
{
	struct fixture *f = *state;
	struct route_table *t = route_new();
	struct hash *ids = hash_new();
	struct route_sandbox *s;

	owner_agent(f->owner, "gpu", "unix:/g", NULL, "team", "secret");
	owner_agent_down(f->owner, "gpu", "ssh: Connection refused");
	assert_string_equal(route_agent(f->replica, STRV("gpu"))->down,
			    "ssh: Connection refused");
	route_dump(owner_table(f->owner), copy, t);
	assert_string_equal(route_agent(t, STRV("gpu"))->down,
			    "ssh: Connection refused");
	owner_agent_up(f->owner, "gpu");
	assert_null(route_agent(f->replica, STRV("gpu"))->down);

	/* It lists its sandboxes; those that it leaves out are gone. */
	owner_add(f->owner, STRV("a"), 1, "gpu", "team", STRV("ta"));
	owner_add(f->owner, STRV("b"), 2, "gpu", "team", STRV("tb"));
	(void)hash_set(ids, STRV("b"), ids);
	assert_int_equal(owner_agent_keep(f->owner, "gpu", ids, "deleted"), 1);
	assert_int_equal(owner_agent_keep(f->owner, "gpu", ids, "deleted"), 0);
	assert_true(route_lookup(f->replica, STRV("a"))->gone);
	assert_false(route_lookup(f->replica, STRV("b"))->gone);

	/* No more; what holds one of its sandboxes may still read it. */
	s = route_lookup(f->replica, STRV("b"));
	route_hold(s);
	owner_agent_drop(f->owner, "gpu", "deleted");
	assert_null(route_agent(f->replica, STRV("gpu")));
	assert_true(s->gone);
	assert_null(s->agent);
	route_release(s);
	owner_agent_drop(f->owner, "gpu", "deleted");
	hash_free(ids);
	route_free(t);
}

/* An agent says what it likes: it gets no id that is another's. */
static void
greedy_agent(void **state)
{
	struct fixture *f = *state;

	owner_agent(f->owner, "embedded", "unix:/e", "/c", NULL, "s");
	owner_agent(f->owner, "evil", "unix:/x", NULL, NULL, "s");
	owner_add(f->owner, STRV("a"), 1, "embedded", NULL, STRV("mine"));
	owner_add(f->owner, STRV("a"), 1, "evil", NULL, STRV("his"));
	assert_token(route_lookup(f->replica, STRV("a")), "mine");
	owner_gone(f->owner, STRV("a"), 1, STRV("idle"));
	owner_add(f->owner, STRV("a"), 2, "evil", NULL, STRV("his"));
	assert_true(route_lookup(f->replica, STRV("a"))->gone);
	owner_add(f->owner, STRV("a"), 3, "embedded", NULL, STRV("again"));
	assert_token(route_lookup(f->replica, STRV("a")), "again");
}

static void
agent(void **state)
{
	struct fixture *f = *state;
	const struct route_sandbox *s;

	add_conf(f->conf, "web", "two");
	owner_set_conf(f->owner, f->conf);
	owner_agent(f->owner, "embedded", "unix:/a", "/c", NULL, "secret");
	owner_add(f->owner, STRV("abc"), 7, "embedded", "team", STRV("tok"));
	s = route_lookup(f->replica, STRV("abc"));
	assert_token(s, "tok");
	assert_string_equal(s->ns, "team");
	assert_string_equal(s->agent->token, "secret");
	/* An agent cannot take a configured name over. */
	owner_add(f->owner, STRV("web"), 8, "embedded", NULL, STRV("evil"));
	assert_token(route_lookup(f->replica, STRV("web")), "two");

	owner_gone(f->owner, STRV("abc"), 7, STRV("idle"));
	s = route_lookup(f->replica, STRV("abc"));
	assert_true(s->gone);
	assert_string_equal(s->gone_reason, "idle");
	owner_add(f->owner, STRV("x"), 9, "embedded", NULL, STRV("a"));
	owner_add(f->owner, STRV("y"), 10, "embedded", NULL, STRV("b"));
	owner_agent_gone(f->owner, "embedded", "exited");
	assert_true(route_lookup(f->replica, STRV("x"))->gone);
	assert_true(route_lookup(f->replica, STRV("y"))->gone);
	assert_false(route_lookup(f->replica, STRV("web"))->gone);
}

static void
row(struct token_row *r, const char *hash, const char *name, const char *role)
{
	memset(r, 0, sizeof(*r));
	strcpy(r->hash, hash);
	strcpy(r->name, name);
	strcpy(r->ns, name);
	strcpy(r->role, role);
}

#define H1 "1111111111111111111111111111111111111111111111111111111111111111"
#define H2 "2222222222222222222222222222222222222222222222222222222222222222"

static const struct route_bearer *
bearer(struct fixture *f, const char *hash)
{
	uint8_t raw[32];

	assert_int_equal(token_hex_decode(strv_of(hash), raw, 32), 0);
	return route_bearer(f->replica, raw);
}

static void
tokens(void **state)
{
	struct fixture *f = *state;
	struct token_row rows[2];
	struct token_list l = {rows, 2};
	unsigned before;

	row(&rows[0], H1, "alice", "user");
	row(&rows[1], H2, "bob", "admin");
	owner_set_tokens(f->owner, &l);
	assert_string_equal(bearer(f, H1)->name, "alice");
	/* Nothing new: nothing is said. */
	before = f->messages;
	owner_set_tokens(f->owner, &l);
	assert_int_equal(f->messages, before);

	row(&rows[1], H2, "bob", "readonly");
	rows[0] = rows[1];
	l.n = 1;
	owner_set_tokens(f->owner, &l);
	assert_null(bearer(f, H1));
	assert_string_equal(bearer(f, H2)->role, "readonly");
	l.n = 0;
	owner_set_tokens(f->owner, &l);
	assert_null(bearer(f, H2));
}

#define JOB "0123456789abcdef01234567"

static const struct route_sandbox *
job(struct fixture *f)
{
	return route_lookup(f->replica, STRV(JOB));
}

/* Starts, is up, ends; a reload is no reason to forget it. */
static void
jobs(void **state)
{
	struct fixture *f = *state;
	unsigned before;

	owner_job(f->owner, JOB, 1, NULL, NULL, "ann");
	assert_true(job(f)->job);
	assert_true(route_starts(job(f)));
	assert_string_equal(job(f)->ns, "ann");
	owner_job(f->owner, JOB, 1, "unix:/j/agent.sock", "/j/control.sock",
		  "ann");
	assert_false(route_starts(job(f)));
	assert_string_equal(job(f)->http, "unix:/j/agent.sock");
	assert_string_equal(job(f)->control, "/j/control.sock");
	owner_set_conf(f->owner, f->conf);
	assert_false(job(f)->gone);
	owner_job_gone(f->owner, JOB, 1, "ann", "ended after 60 s\n(timeout)");
	assert_true(job(f)->gone);
	assert_string_equal(job(f)->gone_reason, "ended after 60 s (timeout)");
	assert_string_equal(job(f)->ns, "ann");
	before = f->messages;
	owner_job_gone(f->owner, JOB, 1, "ann", "again");
	owner_job(f->owner, JOB, 1, "unix:/j/agent.sock", "/j/control.sock",
		  "ann");
	assert_int_equal(f->messages, before);
}

/* One that ended before we were started; and names that are taken. */
static void
jobs_ended(void **state)
{
	struct fixture *f = *state;

	owner_job_gone(f->owner, JOB, 7, "ann", "");
	assert_true(job(f)->gone);
	assert_true(job(f)->job);
	assert_string_equal(job(f)->gone_reason, "ended");
	assert_int_equal(job(f)->generation, 7);
	add_conf(f->conf, "mine", "t");
	owner_set_conf(f->owner, f->conf);
	owner_job(f->owner, "mine", 1, NULL, NULL, "ann");
	owner_job_gone(f->owner, "mine", 1, "ann", "no");
	assert_false(route_lookup(f->replica, STRV("mine"))->job);
	assert_false(route_lookup(f->replica, STRV("mine"))->gone);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(configured, setup, teardown),
	    cmocka_unit_test_setup_teardown(far_agents, setup, teardown),
	    cmocka_unit_test_setup_teardown(greedy_agent, setup, teardown),
	    cmocka_unit_test_setup_teardown(agent, setup, teardown),
	    cmocka_unit_test_setup_teardown(tokens, setup, teardown),
	    cmocka_unit_test_setup_teardown(jobs, setup, teardown),
	    cmocka_unit_test_setup_teardown(jobs_ended, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
