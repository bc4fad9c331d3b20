/* SPDX-License-Identifier: Apache-2.0 */
/* Reading spec.json: one table of keys, each at most once, none unknown. */
#include "config.h"

#include "agent/jobdef.h"

#include <stdlib.h>
#include <string.h>

#include "agent/jobout.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/scratch.h"

enum key_type {
	KEY_TEXT,
	KEY_LIST,
	KEY_ENV,
	KEY_BOOL,
	KEY_U64,
	KEY_ID,
	KEY_FILES
};

struct key {
	const char *name;
	enum key_type type;
	size_t offset;
};

#define K(f, t)                                                                \
	{                                                                      \
#f, t, offsetof(struct jobdef, f)                              \
	}
static const struct key keys[] = {
    K(id, KEY_TEXT),          K(argv, KEY_LIST),     K(env, KEY_ENV),
    K(image, KEY_TEXT),       K(rootfs, KEY_TEXT),   K(expose, KEY_LIST),
    K(net_private, KEY_BOOL), K(outbound, KEY_TEXT), K(best_effort, KEY_BOOL),
    K(timeout_ms, KEY_U64),   K(memory, KEY_U64),    K(cpu_milli, KEY_U64),
    K(pids, KEY_U64),         K(log_max, KEY_U64),   K(uid, KEY_ID),
    K(uids, KEY_ID),          K(slice, KEY_ID),      K(slice_last, KEY_ID),
    K(worker_uid, KEY_ID),    K(outside, KEY_LIST),  K(cgroup, KEY_TEXT),
    K(cwd, KEY_TEXT),         K(files, KEY_FILES),   K(grace_ms, KEY_U64),
    K(prepare, KEY_LIST),     K(scratch, KEY_LIST),
};
#undef K

static const char *const modes[] = {"command", "dedicated", "host"};

static void
free_list(char **v)
{
	for (size_t i = 0; v != NULL && v[i] != NULL; i++)
		mem_free_secret(v[i]);
	free(v);
}

static int
take_list(const struct json *v, char ***out)
{
	const struct json *it = NULL;
	char **list;
	size_t n = 0;

	if (json_type(v) != JSON_ARRAY)
		return E_INVALID;
	list = xcalloc(json_count(v) + 1, sizeof(*list));
	while (json_each(v, &it, NULL)) {
		if (json_string(it) == NULL) {
			free_list(list);
			return E_INVALID;
		}
		list[n++] = xstrdup(json_string(it));
	}
	*out = list;
	return 0;
}

static int
take_env(const struct json *v, char ***out)
{
	const struct json *it = NULL;
	const char *name;
	char **list;
	size_t n = 0;

	if (json_type(v) != JSON_OBJECT)
		return E_INVALID;
	list = xcalloc(json_count(v) + 1, sizeof(*list));
	while (json_each(v, &it, &name)) {
		if (json_string(it) == NULL || *name == '\0' ||
		    strchr(name, '=') != NULL) {
			free_list(list);
			return E_INVALID;
		}
		list[n++] = xasprintf("%s=%s", name, json_string(it));
	}
	*out = list;
	return 0;
}

static int
take_file(const struct json *v, struct jobdef_file *f)
{
	const char *path = json_string(json_get(v, "path")),
		   *content = json_string(json_get(v, "content"));
	uint64_t mode;

	if (path == NULL || *path != '/' || content == NULL ||
	    json_u64(json_get(v, "mode"), 07777, &mode) != 0)
		return E_INVALID;
	f->path = xstrdup(path);
	f->mode = (mode_t)mode;
	return base64_decode(strv_of(content), &f->content);
}

static int
take_files(const struct json *v, struct jobdef *s)
{
	const struct json *it = NULL;
	size_t sum = 0;

	if (json_type(v) != JSON_ARRAY || s->files != NULL)
		return E_INVALID;
	s->files = xcalloc(json_count(v) + 1, sizeof(*s->files));
	while (json_each(v, &it, NULL)) {
		struct jobdef_file *f = &s->files[s->nfiles++];

		if (take_file(it, f) != 0 ||
		    (sum += f->content.len) > JOBDEF_FILES_MAX)
			return E_INVALID;
	}
	return 0;
}

static int
take(const struct key *k, const struct json *v, struct jobdef *s)
{
	char *at = (char *)s + k->offset;
	uint64_t n;
	int r;

	switch (k->type) {
	case KEY_TEXT:
		if (json_string(v) == NULL)
			return E_INVALID;
		*(char **)(void *)at = xstrdup(json_string(v));
		return 0;
	case KEY_LIST:
		return take_list(v, (char ***)(void *)at);
	case KEY_ENV:
		return take_env(v, (char ***)(void *)at);
	case KEY_BOOL:
		return json_bool(v, (bool *)(void *)at);
	case KEY_U64:
		return json_u64(v, UINT64_MAX, (uint64_t *)(void *)at);
	case KEY_ID:
		if ((r = json_u64(v, UINT32_MAX - 1, &n)) == 0)
			*(uint32_t *)(void *)at = (uint32_t)n;
		return r;
	case KEY_FILES:
		return take_files(v, s);
	}
	return E_INVALID;
}

static int
take_mode(const struct json *v, struct jobdef *s)
{
	const char *text = json_string(v);

	for (size_t i = 0; text != NULL && i < ARRAY_LEN(modes); i++)
		if (strcmp(text, modes[i]) == 0) {
			s->mode = (enum jobdef_mode)i;
			return 0;
		}
	return E_INVALID;
}

static int
take_member(const char *name, const struct json *v, struct jobdef *s)
{
	if (strcmp(name, "mode") == 0)
		return take_mode(v, s);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(name, keys[i].name) == 0)
			return take(&keys[i], v, s);
	return E_NOTFOUND;
}

/* Each is sound, and no name or place is there twice. */
static bool
scratch_ok(char *const *v)
{
	struct strv name, other;
	const char *path, *place;

	for (size_t i = 0; v != NULL && v[i] != NULL; i++) {
		if (i == SCRATCH_MAX || !scratch_parse(v[i], &name, &path))
			return false;
		for (size_t k = 0; k < i; k++)
			if (scratch_parse(v[k], &other, &place) &&
			    (strv_eq(name, other) || strcmp(path, place) == 0))
				return false;
	}
	return true;
}

/* What the single keys do not say. Returns the key that is wrong, or NULL. */
static const char *
wrong(const struct jobdef *s)
{
	if (s->id == NULL || *s->id == '\0' || strlen(s->id) > 64 ||
	    strchr(s->id, '/') != NULL)
		return "id";
	if (s->argv == NULL ? s->mode == JOBDEF_COMMAND
			    : s->mode == JOBDEF_HOST || s->argv[0] == NULL ||
				  *s->argv[0] == '\0')
		return "argv";
	if (s->cwd != NULL && (*s->cwd != '/' || s->argv == NULL))
		return "cwd";
	if (s->nfiles != 0 && s->mode == JOBDEF_HOST)
		return "files";
	if (s->rootfs != NULL && *s->rootfs != '/')
		return "rootfs";
	if (s->prepare != NULL &&
	    (s->prepare[0] == NULL || *s->prepare[0] != '/'))
		return "prepare";
	if (!scratch_ok(s->scratch))
		return "scratch";
	if (s->outbound != NULL && *s->outbound != '/')
		return "outbound";
	if (s->cgroup != NULL && *s->cgroup != '/')
		return "cgroup";
	for (size_t i = 0; s->expose != NULL && s->expose[i] != NULL; i++)
		if (*s->expose[i] != '/' || strstr(s->expose[i], "..") != NULL)
			return "expose";
	for (size_t i = 0; s->outside != NULL && s->outside[i] != NULL; i++)
		if (i == JOBOUT_MAX || !jobout_entry_ok(s->outside[i]))
			return "outside";
	if (s->uids != 0 && (s->uid == 0 || UINT32_MAX - s->uids < s->uid))
		return "uid";
	return NULL;
}

static int
fill(const struct json *root, struct jobdef *s, char **why)
{
	const struct json *it = NULL;
	const char *name;
	bool has_mode = false;
	int r;

	if (json_type(root) != JSON_OBJECT) {
		*why = xstrdup("not an object");
		return E_INVALID;
	}
	while (json_each(root, &it, &name)) {
		has_mode |= strcmp(name, "mode") == 0;
		if ((r = take_member(name, it, s)) != 0) {
			*why = xasprintf("%s: %s", name,
					 r == E_NOTFOUND ? "unknown key"
							 : "not acceptable");
			return E_INVALID;
		}
	}
	name = has_mode ? wrong(s) : "mode";
	if (name == NULL)
		return 0;
	*why = xasprintf("%s: missing or not acceptable", name);
	return E_INVALID;
}

bool
jobdef_beside(const struct jobdef *s)
{
	return s->mode == JOBDEF_DEDICATED && s->argv != NULL;
}

int
jobdef_parse(struct strv text, struct jobdef *out, char **why)
{
	struct jobdef s = {.worker_uid = (uid_t)-1};
	struct json_doc *d = NULL;
	const char *reason;
	int r;

	if ((r = json_parse(text, &d, &reason)) != 0) {
		*why = xstrdup(reason);
		return r;
	}
	r = fill(json_root(d), &s, why);
	json_doc_free(d);
	if (r != 0) {
		jobdef_clear(&s);
		return r;
	}
	if (s.env == NULL)
		s.env = xcalloc(1, sizeof(*s.env));
	*out = s;
	return 0;
}

void
jobdef_clear(struct jobdef *s)
{
	free(s->id);
	free_list(s->argv);
	free_list(s->env);
	free_list(s->prepare);
	free(s->cwd);
	for (size_t i = 0; i < s->nfiles; i++) {
		free(s->files[i].path);
		strbuf_clear(&s->files[i].content);
	}
	free(s->files);
	free(s->image);
	free(s->rootfs);
	free(s->cgroup);
	free_list(s->expose);
	free_list(s->scratch);
	free_list(s->outside);
	free(s->outbound);
	memset(s, 0, sizeof(*s));
}
