/*
 * machine.c - what the system tells of time and of this process.
 */
#include "bench/machine.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void bench_sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

void bench_rest_ms(int64_t ms)
{
    bench_sleep_ms(ms + random() % (ms + 1));
}

static double read_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double bench_now_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

double bench_process_cpu_us(void)
{
    return read_us(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_thread_cpu_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

int64_t bench_status_field(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    int64_t value = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoll(line + strlen(name), NULL, 10);
    if (file != NULL)
        fclose(file);
    return value;
}

int bench_socket_count(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        struct stat status;
        if (fstatat(dirfd(folder), entry->d_name, &status, 0) == 0 && S_ISSOCK(status.st_mode))
            count++;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}
