/*
 * loop THREADS SECONDS: keeps so many threads busy for so long, as a program that polls does, and prints for all of
 * them together what the scheduler did meanwhile:
 *
 *     involuntary N migrations N timeslices N
 *
 * It is C because Go's runtime has threads of its own, which interrupt the others.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct counts {
	long involuntary, migrations, timeslices;
};

static struct timespec end;

/* field finds "NAME … NUMBER" among the lines of a file, and fails without it: -1 is no count. */
static long field(const char *file, const char *name)
{
	char line[256];
	long value = -1;
	FILE *f = fopen(file, "r");

	while (f && value < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			value = strtol(line + strcspn(line, "0123456789"), NULL, 10);
	if (f)
		fclose(f);
	if (value < 0) {
		fprintf(stderr, "loop: %s has no %s\n", file, name);
		exit(1);
	}
	return value;
}

/* count reads Documentation/scheduler/sched-stats.rst (schedstat) and the counters beside it of this thread. */
static struct counts count(void)
{
	struct counts c;
	FILE *f = fopen("/proc/thread-self/schedstat", "r");

	if (!f || fscanf(f, "%*u %*u %ld", &c.timeslices) != 1) {
		fprintf(stderr, "loop: no timeslices in schedstat\n");
		exit(1);
	}
	fclose(f);
	c.involuntary = field("/proc/thread-self/sched", "nr_involuntary_switches");
	c.migrations = field("/proc/thread-self/sched", "se.nr_migrations");
	return c;
}

static int over(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
}

static void *spin(void *result)
{
	struct counts *c = result, before = count(), after;

	while (!over())
		for (volatile int i = 0; i < 1 << 14; i++)
			;
	after = count();
	c->involuntary = after.involuntary - before.involuntary;
	c->migrations = after.migrations - before.migrations;
	c->timeslices = after.timeslices - before.timeslices;
	return NULL;
}

int main(int argc, char **argv)
{
	int i, n = argc == 3 ? atoi(argv[1]) : 0, seconds = argc == 3 ? atoi(argv[2]) : 0;
	struct counts all = {0, 0, 0}, *each = calloc(n > 0 ? n : 1, sizeof(*each));
	pthread_t *threads = calloc(n > 0 ? n : 1, sizeof(*threads));

	if (n < 1 || seconds < 1 || !each || !threads) {
		fprintf(stderr, "want: loop THREADS SECONDS\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	for (i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, spin, &each[i])) {
			fprintf(stderr, "loop: no thread\n");
			return 1;
		}
	for (i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		all.involuntary += each[i].involuntary;
		all.migrations += each[i].migrations;
		all.timeslices += each[i].timeslices;
	}
	printf("involuntary %ld migrations %ld timeslices %ld\n", all.involuntary, all.migrations, all.timeslices);
	return 0;
}
