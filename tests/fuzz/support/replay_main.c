/* SPDX-License-Identifier: Apache-2.0 */
/* A main() for a fuzz target without a fuzzer: it gives the target every file named on the command
 * line, or lying in a directory named there, and besides them the empty input. The target ends
 * the program if an input makes it fail; the name of the input is printed before. No input at all
 * is an error, so that a moved or forgotten corpus does not pass for a tested one. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Defined by the target. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t replayed_count;

static void die(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

/* Every input lies in a block of exactly its own size, so that a sanitizer sees a read beyond it.
 */
static void replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        die(path, strerror(errno));
    }
    uint8_t *data = malloc(size == 0 ? 1 : size);
    if (data == NULL) {
        die(path, "no memory");
    }
    if (fread(data, 1, size, file) != size) {
        die(path, "cannot be read whole");
    }
    fclose(file);

    printf("%s (%zu bytes)\n", path, size);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed_count++;
}

static void replay_directory(const char *path);

static void replay(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        die(path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        replay_directory(path);
    } else {
        replay_file(path, (size_t)info.st_size);
    }
}

static void replay_directory(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL) {
        die(path, strerror(errno));
    }
    struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char child[PATH_MAX];
        int size = snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
        if (size < 0 || (size_t)size >= sizeof(child)) {
            die(path, "an entry's path is too long");
        }
        replay(child);
    }
    closedir(directory);
}

int main(int argc, char **argv)
{
    static const uint8_t nothing[1];
    LLVMFuzzerTestOneInput(nothing, 0);
    for (int i = 1; i < argc; i++) {
        replay(argv[i]);
    }
    if (replayed_count == 0) {
        die(argc > 1 ? argv[1] : argv[0], "no inputs; put at least one file into the corpus");
    }
    printf("%zu inputs replayed\n", replayed_count);
    return 0;
}
