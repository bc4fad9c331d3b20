# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += sbx
sbx_SOURCES = \
	cli/cmd.h \
	cli/copy.c \
	cli/joblogs.c \
	cli/jobref.c \
	cli/lines.c \
	cli/lines.h \
	cli/live.c \
	cli/live.h \
	cli/ls.c \
	cli/main.c \
	cli/pair.c \
	cli/pair.h \
	cli/place.c \
	cli/place.h \
	cli/portforward.c \
	cli/progress.c \
	cli/progress.h \
	cli/remote.c \
	cli/snapshot.c \
	cli/spool.c \
	cli/spool.h \
	cli/status.c \
	cli/status.h \
	cli/terminal.c \
	cli/terminal.h \
	cli/up.c \
	cli/url.c \
	cli/url.h \
	cli/web.c \
	cli/web.h
sbx_LDADD = $(NETTLS_LIBS) $(CJSON_LIBS)

bashcompdir = $(datadir)/bash-completion/completions
dist_bashcomp_DATA = cli/completions/sbx.bash
zshcompdir = $(datadir)/zsh/site-functions
dist_zshcomp_DATA = cli/completions/_sbx
fishcompdir = $(datadir)/fish/vendor_completions.d
dist_fishcomp_DATA = cli/completions/sbx.fish
