/*
 * Follows the notice of this container: prints its CPUs and NUMA nodes, and each change of them.
 *
 *     cc -O2 -Wall -o notice notice.c && ./notice [DIRECTORY]
 *
 * It needs Linux and nothing else. The pod asks for the file by the annotation paddock-project.github.io/notice: "*".
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define VERSION "notice.paddock-project.github.io/v1"

/* A file has at most 16 KiB. */
static char text[16 * 1024 + 1];

/* string_end returns the closing quote of the string that begins at s, or NULL. */
static const char *string_end(const char *s)
{
	for (s++; *s && *s != '"'; s++)
		if (*s == '\\' && !*++s)
			return NULL;
	return *s ? s : NULL;
}

/*
 * field finds the value of a field of the JSON object that begins at s, and returns its first character, or NULL. It passes over
 * everything that it does not know, also objects and lists: a later version of the file may have more fields.
 */
static const char *field(const char *s, const char *name)
{
	size_t length = strlen(name);
	int depth = 0;

	for (; s && *s; s++) {
		if (*s == '{' || *s == '[') {
			depth++;
		} else if (*s == '}' || *s == ']') {
			if (--depth == 0)
				return NULL;
		} else if (*s == '"') {
			const char *end = string_end(s);

			if (!end)
				return NULL;
			if (depth == 1 && (size_t)(end - s - 1) == length && !strncmp(s + 1, name, length)) {
				const char *value = end + 1 + strspn(end + 1, " \t\r\n");

				if (*value == ':') /* else it is a value */
					return value + 1 + strspn(value + 1, " \t\r\n");
			}
			s = end;
		}
	}
	return NULL;
}

/* print prints a field of an object: a number, or a string without its quotes. CPU lists and times have no escapes. */
static void print(const char *object, const char *name)
{
	const char *value = field(object, name);

	if (!value)
		value = "";
	if (*value == '"')
		value++;
	printf(" %s %.*s", name, (int)strcspn(value, "\",}] \t\r\n"), value);
}

/* show reads the file, whole, and prints it. It is replaced by a rename, so it is never half of one. */
static void show(const char *directory)
{
	char name[PATH_MAX];
	const char *version, *pending;
	size_t n;
	FILE *f;

	snprintf(name, sizeof name, "%s/notice.json", directory);
	f = fopen(name, "re");
	if (!f) {
		printf("no notice yet\n");
		return;
	}
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	version = field(text, "apiVersion");
	if (!version || strncmp(version, "\"" VERSION "\"", strlen(VERSION) + 2)) {
		printf("a notice of another version\n");
		return;
	}
	printf("notice");
	print(text, "revision");
	print(text, "cpus");
	print(text, "mems");
	print(text, "sharedWith");
	pending = field(text, "pending");
	if (pending && *pending == '{') {
		printf(" pending");
		print(pending, "cpus");
		print(pending, "mems");
		print(pending, "deadline");
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	const char *directory = argc > 1 ? argv[1] : "/run/paddock-notice";
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	int watch = inotify_init1(IN_CLOEXEC);

	/* Watch first, then read: no change falls in between. */
	if (watch < 0 || inotify_add_watch(watch, directory, IN_MOVED_TO | IN_ONLYDIR) < 0) {
		fprintf(stderr, "%s: %s: this container has no notice\n", directory, strerror(errno));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	show(directory);
	for (;;) {
		ssize_t n = read(watch, events, sizeof events);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 1;
		show(directory); /* Several events are one change: the file is the newest. */
	}
}
