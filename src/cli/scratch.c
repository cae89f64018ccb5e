/*
 * scratch.c - a store for one run: an SQLite file in a folder of its own.
 */
#include "cli/scratch.h"

#include "base/error.h"
#include "base/trusted_file.h"
#include "cli/cli.h"
#include "cli/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Only where no other user can exchange it: the files are removed by its name. */
static int create_folder(const char *verb, char *folder, size_t size, struct simba_error *error)
{
    const char *parent = getenv("TMPDIR");
    int code;

    if (parent == NULL || parent[0] != '/')
        parent = "/tmp";
    if ((size_t)snprintf(folder, size, "%s/simba-%s-XXXXXX", parent, verb) >= size)
        return sb_error_set(error, SIMBA_ECONFIG, "the path in TMPDIR is too long");
    code = sb_trusted_folder("folder TMPDIR", parent, error);
    if (code != SIMBA_OK)
        return code;
    if (mkdtemp(folder) == NULL)
        return sb_error_set(error, SIMBA_ECONFIG, "cannot create a folder in %s: %s", parent,
                            strerror(errno));
    return SIMBA_OK;
}

int cli_scratch_create(const char *verb, char *folder, size_t folder_size, char *url,
                       size_t url_size, struct simba_error *error)
{
    char path[PATH_MAX + sizeof "/" CLI_SCRATCH_FILE];

    int code = create_folder(verb, folder, folder_size, error);
    if (code != SIMBA_OK)
        return code;
    snprintf(path, sizeof path, "%s/" CLI_SCRATCH_FILE, folder);
    code = cli_store_file_url(path, url, url_size, error);
    if (code != SIMBA_OK)
        cli_scratch_remove(folder);
    return code;
}

void cli_scratch_remove(const char *folder)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, CLI_SCRATCH_FILE, strlen(CLI_SCRATCH_FILE)) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    if (rmdir(folder) != 0)
        cli_message("%s is left behind: %s", folder, strerror(errno));
}
