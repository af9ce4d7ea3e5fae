/*
 * Feeds files to a fuzz target, so that every corpus runs with the tests.
 *
 * usage: fuzz_X FILE|FOLDER...: every file, and every file of a folder.
 */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 1 << 21 };

static int
replay(const char *path)
{
	static uint8_t data[LARGEST];
	FILE *file = fopen(path, "rb");
	size_t size;
	uint8_t *exact;

	if (!file)
		return 0;
	size = fread(data, 1, sizeof(data), file);
	fclose(file);
	/* In a block of its size, so that a read past the end is seen. */
	exact = malloc(size ? size : 1);
	if (!exact)
		return 0;
	for (size_t i = 0; i < size; i++)
		exact[i] = data[i];
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	return 1;
}

static int
replay_folder(const char *path, DIR *dir)
{
	const struct dirent *entry;
	char name[1024];
	int n = 0;

	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		n += replay(name);
	}
	return n;
}

int
main(int argc, char **argv)
{
	int n = 0;

	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		int found = dir ? replay_folder(argv[i], dir)
				: replay(argv[i]);

		if (dir)
			closedir(dir);
		if (!found) {
			printf("no input: %s\n", argv[i]);
			return 1;
		}
		n += found;
	}
	printf("%d passed, 0 failed, 0 skipped\n", n);
	return n == 0;
}
