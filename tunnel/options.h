/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one tunnel is to do, in ssh_config(5)'s words: a table of every option
 * that OpenSSH knows says which of them we follow, and which are accepted
 * without effect.
 */
#ifndef SBX_TUNNEL_OPTIONS_H
#define SBX_TUNNEL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"

struct spec;

#define OPTIONS_CONNECTIONS_MAX 32

enum options_strict { STRICT_NO, STRICT_ACCEPT_NEW, STRICT_ASK, STRICT_YES };

/* LogLevel, in OpenSSH's order. */
enum options_log {
	OPT_LOG_QUIET,
	OPT_LOG_FATAL,
	OPT_LOG_ERROR,
	OPT_LOG_INFO,
	OPT_LOG_VERBOSE,
	OPT_LOG_DEBUG
};

struct options_list {
	char **v;
	size_t n;
};

struct options {
	char *host;     /* as given on the command line */
	char *hostname; /* HostName; NULL: host */
	char *user;     /* NULL: our own name */
	char *key_alias;
	char *fingerprint; /* SHA256:...: the one host key allowed */
	char *agent;       /* IdentityAgent; NULL: SSH_AUTH_SOCK */
	char *passphrase_file;
	char *ciphers;
	char *macs;
	char *kex;
	char *host_algs;
	struct options_list identities;
	struct options_list certificates;
	struct options_list known_hosts;
	struct options_list global_known_hosts;
	struct spec **forwards;
	size_t nforwards;
	uint64_t port;            /* 0: 22 */
	uint64_t connect_timeout; /* seconds; 0: 15 */
	uint64_t alive_interval;  /* seconds; 0: never */
	uint64_t alive_max;
	uint64_t attempts;    /* of the first connection */
	uint64_t backoff_cap; /* milliseconds */
	uint64_t wait_ms;     /* a new connection waits for the tunnel */
	uint64_t bind_mask;   /* StreamLocalBindMask */
	uint64_t connections; /* SSH connections */
	int strict;           /* enum options_strict */
	int log;              /* enum options_log */
	int family;           /* AF_UNSPEC, AF_INET, AF_INET6 */
	bool exit_on_failure;
	bool identities_only;
	bool batch;
	bool gateway_ports;
	bool bind_unlink;
	bool forever;  /* retry the first connection too */
	bool no_delay; /* have sshd send small packets at once */
	bool reclaim;  /* end our dead predecessor's server process */
};

void options_init(struct options *o);
/* Fills in what was not given. */
void options_finish(struct options *o);
void options_clear(struct options *o);
/*
 * Sets one option, first one wins (as in ssh_config). 0; E_UNSUPPORTED: known
 * to OpenSSH and without effect here; E_NOTFOUND: nobody knows it; E_INVALID:
 * bad value. *why says it in words (malloc'ed, NULL when 0).
 */
int options_set(struct options *o, const char *name, const char *value,
		char **why) SBX_MUST_CHECK;
/* "Name=value" or "Name value". */
int options_set_text(struct options *o, const char *text,
		     char **why) SBX_MUST_CHECK;
void options_add(struct options_list *l, const char *s);
int options_forward(struct options *o, int kind, const char *text,
		    char **why) SBX_MUST_CHECK;
const char *options_host(const struct options *o); /* to connect to */
uint16_t options_port(const struct options *o);

#endif
