/* SPDX-License-Identifier: Apache-2.0 */
/* sbx: sandboxes and jobs of a gateway from the command line. */
#include "config.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/place.h"

static const struct command {
	const char *name;
	const char *args;
	const char *help;
	cmd_fn *fn;
} commands[] = {
    {"up",
     "[-n NAME] [-i IMAGE] [-f FLAVOR] [-e NAME=VALUE]...\n"
     "              [-s NAME=VALUE]... [-l LABEL=VALUE]... [-p PORT]...\n"
     "              [--idle TIME] [--timeout TIME] [--host] [--no-wait]\n"
     "              [--restore SNAPSHOT]",
     "start a sandbox; prints its id", cmd_up},
    {"run",
     "[-d] [-n NAME] [-i IMAGE] [-f FLAVOR] [-e NAME=VALUE]...\n"
     "              [-s NAME=VALUE]... [-l LABEL=VALUE]... [--timeout TIME]\n"
     "              [--restore SNAPSHOT] [--] COMMAND...",
     "run a job; prints its output, ends with its status", cmd_run},
    {"ls", "[-a] [-q] [-l LABEL=VALUE]...", "list what runs (-a: and ran)",
     cmd_ls},
    {"exec",
     "[-i] [-t] [-s] [-e NAME=VALUE]... [-w DIR] [--timeout TIME]\n"
     "              JOB [--] COMMAND...",
     "run a command in a sandbox (-i: with our input, -t: and terminal,\n"
     "                -s: by the shell)",
     cmd_exec},
    {"cp", "[-r] JOB:PATH FILE | FILE JOB:PATH",
     "copy files out of and into a sandbox", cmd_cp},
    {"logs", "[-f] [-n LINES] JOB", "print what a job printed", cmd_logs},
    {"url", "JOB [PORT]", "print the URL of a sandbox, or of a port in it",
     cmd_url},
    {"port-forward", "JOB [LOCAL:]PORT...",
     "HTTP servers of a sandbox on loopback", cmd_forward},
    {"kill", "JOB...", "end sandboxes and jobs", cmd_kill},
    {"snapshot",
     "create [-k] [-v VOLUME] [--no-wait] JOB | ls [-q] [JOB] |\n"
     "              rm ID... | get ID FILE",
     "keep what a job wrote, for another one (-k: and end it)", cmd_snapshot},
    {"token", "JOB", "print a sandbox's X-Sandbox-Token (a secret)", cmd_token},
    {"tunnels", "", "list the gateway's tunnels", cmd_tunnels},
};

static void
usage(FILE *f)
{
	(void)fputs("usage: sbx [--url URL] [--token-file FILE] [--ca FILE]\n"
		    "           [--namespace NAME] COMMAND [ARGUMENT...]\n\n",
		    f);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		(void)fprintf(f, "  %-13s %s\n", commands[i].name,
			      commands[i].help);
	(void)fputs("\nJOB is an id, the beginning of one, or a name; "
		    "JOB.SANDBOX one of a host's.\n"
		    "The URL and the token come from SBX_URL and "
		    "SBX_API_TOKEN, or HF_ENDPOINT and\nHF_TOKEN; a CA from "
		    "SSL_CERT_FILE. sbx COMMAND --help says more.\n",
		    f);
}

static const struct command *
find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

int
cmd_usage(const char *name)
{
	const struct command *c = find(name);

	if (c != NULL)
		(void)fprintf(stderr, "usage: sbx %s %s\n", c->name, c->args);
	return EXIT_USAGE;
}

int
cmd_seconds(const char *option, const char *text, double *out)
{
	uint64_t ms;
	char *end;

	*out = strtod(text, &end);
	if (*text != '\0' && *end == '\0' && *out >= 0)
		return 0;
	if (strv_parse_duration(strv_of(text), &ms) == 0) {
		*out = (double)ms / 1000;
		return 0;
	}
	say_error("%s %s: a time is wanted, like 30, 90s or 5m", option, text);
	return EXIT_USAGE;
}

static int
read_token(struct place *p, const char *path)
{
	int r = file_read_secret(path, &p->secret);

	if (r == 0) {
		p->token = p->secret;
		return 0;
	}
	say_error("--token-file %s: %s", path, err_text(r));
	return EXIT_USAGE;
}

static int
run(struct place *p, int argc, char **argv)
{
	const struct command *c;

	if (argc == 0) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if ((c = find(argv[0])) == NULL) {
		say_error("%s: no such command; sbx --help lists them",
			  argv[0]);
		return EXIT_USAGE;
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		printf("usage: sbx %s %s\n\n%s\n", c->name, c->args, c->help);
		return 0;
	}
	optind = 0; /* getopt begins anew */
	return c->fn(p, argc, argv);
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"url", required_argument, NULL, 'u'},
	    {"token-file", required_argument, NULL, 't'},
	    {"ca", required_argument, NULL, 'c'},
	    {"namespace", required_argument, NULL, 'n'},
	    {"help", no_argument, NULL, 'h'},
	    {"version", no_argument, NULL, 'V'},
	    {NULL, 0, NULL, 0}};
	struct place p = {.loop = NULL};
	int c, r = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	while (r == 0 &&
	       (c = getopt_long(argc, argv, "+hV", longs, NULL)) != -1) {
		if (c == 'u') {
			p.url = optarg;
		} else if (c == 't') {
			r = read_token(&p, optarg);
		} else if (c == 'c') {
			p.ca = optarg;
		} else if (c == 'n') {
			p.ns = optarg;
		} else if (c == 'h') {
			usage(stdout);
			return 0;
		} else if (c == 'V') {
			printf("sbx %s\n", PACKAGE_VERSION);
			return 0;
		} else {
			usage(stderr);
			r = EXIT_USAGE;
		}
	}
	if (r == 0)
		r = run(&p, argc - optind, argv + optind);
	place_close(&p);
	return r;
}
