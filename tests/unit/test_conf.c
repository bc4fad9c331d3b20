/* SPDX-License-Identifier: Apache-2.0 */
/* The INI reader: types, defaults, every error with its place, dump. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

struct top {
	uint64_t workers;
};

struct server {
	char *path;
	char *label;
	bool debug;
	uint64_t port;
	uint64_t timeout;
	uint64_t limit;
	int mode;
	struct conf_list listen;
};

struct box {
	char *token_file;
	struct conf_list allow;
};

static const char *const modes[] = {"off", "soft", "hard", NULL};

static const struct conf_section sections[] = {
    {"", false, sizeof(struct top), NULL},
    {"server", false, sizeof(struct server), "The server."},
    {"box", true, sizeof(struct box), "One box."},
    {NULL, false, 0, NULL}};

#define S(f) offsetof(struct server, f)
#define B(f) offsetof(struct box, f)

static const struct conf_key keys[] = {
    {"", "workers", CONF_U64, offsetof(struct top, workers), "2", 1, 64, NULL,
     "How many."},
    {"server", "path", CONF_STRING, S(path), "/run", 0, 0, NULL, "Where."},
    {"server", "label", CONF_STRING, S(label), NULL, 0, 0, NULL, "A name."},
    {"server", "debug", CONF_BOOL, S(debug), "no", 0, 0, NULL, "More."},
    {"server", "port", CONF_U64, S(port), "80", 1, 65535, NULL, "Port."},
    {"server", "timeout", CONF_DURATION, S(timeout), "10s", 100, 3600000, NULL,
     "Patience."},
    {"server", "limit", CONF_SIZE, S(limit), "32K", 1024, 0, NULL, "Size."},
    {"server", "mode", CONF_ENUM, S(mode), "soft", 0, 0, modes, "How."},
    {"server", "listen", CONF_LIST, S(listen), ":80", 0, 0, NULL, "Ports."},
    {"box", "token_file", CONF_STRING, B(token_file), NULL, 0, 0, NULL, "T."},
    {"box", "allow", CONF_LIST, B(allow), NULL, 0, 0, NULL, "Who."},
    {NULL, NULL, CONF_STRING, 0, NULL, 0, 0, NULL, NULL}};

static const struct conf_spec spec = {sections, keys};

static struct conf *
parse(const char *text)
{
	struct conf *c = NULL;
	char *msg = NULL;

	if (conf_parse(&spec, "f.conf", strv_of(text), &c, &msg) != 0)
		fail_msg("%s", msg);
	assert_null(msg);
	return c;
}

static void
refuse(struct strv text, const char *want)
{
	struct conf *c = NULL;
	char *msg = NULL;

	assert_int_equal(conf_parse(&spec, "f.conf", text, &c, &msg),
			 E_INVALID);
	assert_null(c);
	assert_string_equal(msg, want);
	free(msg);
}

static void
test_defaults(void **state)
{
	struct conf *c = parse("");
	const struct top *t = conf_section(c, "");
	const struct server *s = conf_section(c, "server");

	(void)state;
	assert_int_equal(t->workers, 2);
	assert_string_equal(s->path, "/run");
	assert_null(s->label);
	assert_false(s->debug);
	assert_int_equal(s->port, 80);
	assert_int_equal(s->timeout, 10000);
	assert_int_equal(s->limit, 32768);
	assert_int_equal(s->mode, 1);
	assert_int_equal(s->listen.n, 1);
	assert_string_equal(s->listen.v[0], ":80");
	assert_null(conf_named(c, "box", 0, NULL));
	assert_int_equal(conf_line(c, "server", NULL, "path"), 0);
	assert_string_equal(conf_file_name(c), "f.conf");
	conf_free(c);
	conf_free(NULL);
}

static void
test_full(void **state)
{
	struct conf *c = parse("# first\n"
			       "workers=4\n"
			       "\t[server]\r\n"
			       "path = /a b;c#d\r\n"
			       "label = \" # \\\"x\\\" \\\\ \"\n"
			       "; debug = maybe\n"
			       "debug = on\n"
			       "port = 65535\n"
			       "timeout = 100ms\n"
			       "limit = 1M\n"
			       "mode = hard\n"
			       "listen = a=b\n"
			       "listen = \"\"\n"
			       "listen = c\n"
			       "\n"
			       "[ box  one.example:80 ]\n"
			       "allow = x\n"
			       "[box two]\n"
			       "token_file =");
	const struct server *s = conf_section(c, "server");
	const struct top *t = conf_section(c, "");
	const struct box *b;
	const char *name;

	(void)state;
	assert_int_equal(t->workers, 4);
	assert_string_equal(s->path, "/a b;c#d");
	assert_string_equal(s->label, " # \"x\" \\ ");
	assert_true(s->debug);
	assert_int_equal(s->port, 65535);
	assert_int_equal(s->timeout, 100);
	assert_int_equal(s->limit, 1048576);
	assert_int_equal(s->mode, 2);
	assert_int_equal(s->listen.n, 3);
	assert_string_equal(s->listen.v[0], "a=b");
	assert_string_equal(s->listen.v[1], "");
	assert_string_equal(s->listen.v[2], "c");
	b = conf_named(c, "box", 0, &name);
	assert_string_equal(name, "one.example:80");
	assert_int_equal(b->allow.n, 1);
	assert_null(b->token_file);
	b = conf_named(c, "box", 1, &name);
	assert_string_equal(name, "two");
	assert_int_equal(b->allow.n, 0);
	assert_string_equal(b->token_file, "");
	assert_null(conf_named(c, "box", 2, &name));
	assert_int_equal(conf_line(c, "", NULL, "workers"), 2);
	assert_int_equal(conf_line(c, "server", NULL, "listen"), 12);
	assert_int_equal(conf_line(c, "box", "two", "token_file"), 19);
	assert_int_equal(conf_line(c, "box", "one.example:80", "token_file"),
			 0);
	assert_int_equal(conf_line(c, "box", "three", "token_file"), 0);
	assert_int_equal(conf_line(c, "box", "two", "nonsense"), 0);
	conf_free(c);
}

static void
test_refused(void **state)
{
	static const struct {
		struct strv text;
		const char *msg;
	} cases[] = {
#define R(t, m) {{t, sizeof(t) - 1}, "f.conf:" m}
	    R("\nnonsense\n", "2: nonsense: expected \"key = value\""),
	    R("= 4", "1: = 4: the key before \"=\" is missing"),
	    R("worker = 4",
	      "1: worker: unknown key in this section; did you mean workers?"),
	    R("port = 4",
	      "1: port: unknown key in this section; it belongs in [server]"),
	    R("[server]\nprot = 4",
	      "2: prot: unknown key in this section; did you mean port?"),
	    R("[server]\nworkers = 4",
	      "2: workers: unknown key in this section; it belongs above the "
	      "first section"),
	    R("[server]\nzz = 4", "2: zz: unknown key in this section"),
	    R("workers = 4\nworkers = 4",
	      "2: workers: given twice (first on line 1)"),
	    R("[server]\nport = 1\n[box a]\n[server]",
	      "4: [server]: given twice (first on line 1)"),
	    R("[box a]\n[box b]\n[box  a]",
	      "3: [box  a]: given twice (first on line 1)"),
	    R("[nonsense]", "1: [nonsense]: unknown section"),
	    R("[]", "1: []: unknown section"),
	    R("[", "1: [: the closing ] is missing"),
	    R("[server", "1: [server: the closing ] is missing"),
	    R("[server] # x", "1: [server] # x: the closing ] is missing"),
	    R("[server x]", "1: [server x]: this section takes no name"),
	    R("[box]", "1: [box]: this section needs a name"),
	    R("[box a b]",
	      "1: [box a b]: a name is at most 255 visible characters without "
	      "blanks, quotes or any of #;[]\\"),
	    R("[server]\nport = 0", "2: port: must be 1 to 65535"),
	    R("[server]\nport = 65536", "2: port: must be 1 to 65535"),
	    R("[server]\nport = 99999999999999999999",
	      "2: port: must be 1 to 65535"),
	    R("[server]\nport = -1", "2: port: must be a whole number"),
	    R("[server]\nport = 0x50", "2: port: must be a whole number"),
	    R("[server]\nport =", "2: port: needs a value"),
	    R("[server]\nport = \"\"", "2: port: must be a whole number"),
	    R("[server]\nport = 80 # web",
	      "2: port: comments stand on lines of their own (put the value in "
	      "double quotes if this is none)"),
	    R("[server]\npath = # x",
	      "2: path: comments stand on lines of their own (put the value in "
	      "double quotes if this is none)"),
	    R("[server]\ntimeout = 1w",
	      "2: timeout: must be a time such as 500ms, 10s, 5m, 1h or 1d"),
	    R("[server]\ntimeout = 1ms", "2: timeout: must be 100ms to 1h"),
	    R("[server]\ntimeout = 2h", "2: timeout: must be 100ms to 1h"),
	    R("[server]\nlimit = 5KB",
	      "2: limit: must be a size such as 512, 64K, 10M or 1G"),
	    R("[server]\nlimit = 5", "2: limit: must be at least 1K"),
	    R("[server]\ndebug = 2", "2: debug: must be yes or no"),
	    R("[server]\ndebug = YES", "2: debug: must be yes or no"),
	    R("[server]\nmode = loud", "2: mode: must be off, soft or hard"),
	    R("[server]\npath = \"a", "2: path: the closing quote is missing"),
	    R("[server]\npath = \"", "2: path: the closing quote is missing"),
	    R("[server]\npath = \"a\\\"",
	      "2: path: the closing quote is missing"),
	    R("[server]\npath = \"a\" b",
	      "2: path: text after the closing quote"),
	    R("[server]\npath = \"a\\n\"",
	      "2: path: only \\\" and \\\\ may follow a backslash in quotes"),
	    R("[server]\npath = a\0b",
	      "2: path = a?b: control byte in this line"),
	    R("# \x1b", "1: # ?: control byte in this line"),
	    R("[server]\npath = \xff", "2: path = ?: this line is not UTF-8"),
	    R("\xef\xbb\xbfworkers = 1",
	      "1: ???workers: unknown key in this section"),
	    R("01234567890123456789012345678901234567890123456789012345678901"
	      "234567",
	      "1: 0123456789012345678901234567890123456789012345678901234567890"
	      "123...: expected \"key = value\""),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		refuse(cases[i].text, cases[i].msg);
}

/* A specification without keys above the first section. */
static void
test_no_top(void **state)
{
	const struct conf_spec less = {sections + 1, keys + 1};
	struct conf *c = NULL;
	char *msg = NULL;

	(void)state;
	assert_int_equal(conf_parse(&less, "x", STRV("path = /"), &c, &msg),
			 E_INVALID);
	assert_string_equal(msg,
			    "x:1: path: stands before the first [section]");
	free(msg);
}

static void
check_dump(const char *text)
{
	struct conf *c = parse(text), *again;
	struct strbuf first = {0}, second = {0};

	conf_dump(c, &first);
	again = parse(first.s);
	conf_dump(again, &second);
	assert_string_equal(first.s, second.s);
	strbuf_clear(&first);
	strbuf_clear(&second);
	conf_free(c);
	conf_free(again);
}

static void
test_dump(void **state)
{
	struct conf *c = parse("[box b]\nallow = \" x\"\nallow = y\n"
			       "[server]\nlisten =\nlabel = \"a # b\"\n"
			       "timeout = 90\nlimit = 1536\npath =\n");
	struct strbuf out = {0};

	(void)state;
	conf_dump(c, &out);
	assert_string_equal(out.s, "workers = 2\n"
				   "\n"
				   "[server]\n"
				   "path = \"\"\n"
				   "label = \"a # b\"\n"
				   "debug = no\n"
				   "port = 80\n"
				   "timeout = 90s\n"
				   "limit = 1536\n"
				   "mode = soft\n"
				   "listen =\n"
				   "\n"
				   "[box b]\n"
				   "# token_file =\n"
				   "allow = \" x\"\n"
				   "allow = y\n"
				   "\n");
	strbuf_clear(&out);
	conf_free(c);
	check_dump("");
	check_dump("[server]\nlabel = \"\\\"\"\npath = a\"b\nlimit = 1G\n");
	check_dump("[server]\nlabel = \\\\x\nlisten = \"# no\"\n");
	check_dump("[box z]\n[box a]\n[server]\ntimeout = 1h\n");
}

static void
test_read(void **state)
{
	char path[] = "/tmp/sbx-test-conf-XXXXXX", *want, *msg = NULL;
	const struct top *t;
	struct conf *c = NULL;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, "workers = 7\n", 12), 0);
	assert_int_equal(conf_read(&spec, path, &c, &msg), 0);
	t = conf_section(c, "");
	assert_int_equal(t->workers, 7);
	conf_free(c);
	assert_int_equal(ftruncate(fd, 1024 * 1024 + 1), 0);
	assert_int_equal(conf_read(&spec, path, &c, &msg), E_LIMIT);
	want = xasprintf("%s: cannot be read: larger than 1 MiB", path);
	assert_string_equal(msg, want);
	free(want);
	free(msg);
	fd_close(&fd);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(conf_read(&spec, path, &c, &msg), E_NOTFOUND);
	want = xasprintf("%s: cannot be read: not found", path);
	assert_string_equal(msg, want);
	free(want);
	free(msg);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_defaults), cmocka_unit_test(test_full),
	    cmocka_unit_test(test_refused),  cmocka_unit_test(test_no_top),
	    cmocka_unit_test(test_dump),     cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
