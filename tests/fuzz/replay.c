/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target once over every file of its corpus, without libFuzzer,
 * so that `make check` keeps what fuzzing once found. The program is called
 * replay_<name> and takes $srcdir/tests/fuzz/corpus/<name>, or the files and
 * directories that it is given. An empty corpus is a failure.
 */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (16 * 1024 * 1024)

static int
replay_file(const char *path)
{
	char *text;
	uint8_t *data;
	size_t n;
	int r = file_read(path, INPUT_MAX, &text, &n);

	if (r != 0) {
		fprintf(stderr, "%s: %s\n", path, err_text(r));
		return -1;
	}
	/* To the byte, and without file_read's NUL: a target that reads too
	 * far must be seen by the sanitizer. */
	data = malloc(n);
	if (n != 0 && data != NULL)
		memcpy(data, text, n);
	free(text);
	if (getenv("REPLAY_VERBOSE") != NULL)
		fprintf(stderr, "%s\n", path);
	(void)LLVMFuzzerTestOneInput(data, n);
	free(data);
	return 1;
}

static int
not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* The number of inputs that were run; -1 after an error. */
static int
replay(const char *path)
{
	struct dirent **list;
	struct stat st;
	int n, ran = 0;

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return replay_file(path);
	n = scandir(path, &list, not_hidden, alphasort);
	if (n < 0) {
		perror(path);
		return -1;
	}
	for (int i = 0; i < n; i++) {
		char *file = xasprintf("%s/%s", path, list[i]->d_name);

		if (ran >= 0)
			ran = replay_file(file) < 0 ? -1 : ran + 1;
		free(file);
		free(list[i]);
	}
	free(list);
	return ran;
}

static char *
default_corpus(const char *program)
{
	const char *srcdir = getenv("srcdir");
	const char *name = strrchr(program, '/');

	name = name != NULL ? name + 1 : program;
	if (strncmp(name, "replay_", 7) == 0)
		name += 7;
	return xasprintf("%s/tests/fuzz/corpus/%s",
			 srcdir != NULL ? srcdir : ".", name);
}

int
main(int argc, char **argv)
{
	int total = 0;
	char *corpus = default_corpus(argv[0]);
	char *only[] = {corpus, NULL};

	for (char **arg = argc > 1 ? argv + 1 : only; *arg != NULL; arg++) {
		int n = replay(*arg);

		if (n <= 0) {
			fprintf(stderr, "%s: nothing was replayed\n", *arg);
			free(corpus);
			return 1;
		}
		total += n;
	}
	printf("%d inputs\n", total);
	free(corpus);
	return 0;
}
