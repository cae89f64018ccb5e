/*
 * replay.c - a main for targets where there is no libFuzzer: feeds them files, and all files of
 * folders.
 *
 *     PROGRAM PATH...
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (1 << 20)

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    size_t size;

    if (file == NULL || data == NULL) {
        perror(path);
        exit(1);
    }
    size = fread(data, 1, INPUT_MAX, file);
    fclose(file);
    fprintf(stderr, "%s\n", path);             /* the last one before a crash is the one */
    data = realloc(data, size > 0 ? size : 1); /* so that a read behind the end is seen */
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int replay(const char *path)
{
    struct dirent **entries = NULL;
    struct stat status;
    int count;
    int files = 0;

    if (stat(path, &status) != 0) {
        perror(path);
        exit(1);
    }
    if (!S_ISDIR(status.st_mode))
        return replay_file(path);
    count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char inner[4096];

        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            files += replay(inner);
        free(entries[i]);
    }
    free(entries);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;

    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        files += replay(argv[i]);
    printf("%d inputs\n", files);
    return files > 0 ? 0 : 1;
}
