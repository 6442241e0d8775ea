/*
 * A filter for tests that takes its time to load in the workers of a run: until the file is there whose path its parameters are. A worker
 * ends with status 7 where the path is "/dev/full", and where "at once:" stands before the path of a file that is not there. It wants every
 * event.
 */
#include <fcntl.h>
#include <sheaf.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The run itself makes the filter once, to check its parameters. */
static int is_worker(void) {
    char arguments[4096] = {0};
    int file = open("/proc/self/cmdline", O_RDONLY);
    ssize_t bytes = read(file, arguments, sizeof arguments - 1);
    close(file);
    size_t command = strlen(arguments) + 1;
    return bytes > 0 && strcmp(arguments + command, "processor") == 0;
}

static const char AT_ONCE[] = "at once:";

static void *create(const SheafFilterSetup *setup) {
    static char itself;
    const struct timespec pause = {0, 1000000};
    if (!is_worker())
        return &itself;
    const char *path = setup->parameters;
    if (strcmp(path, "/dev/full") == 0)
        _exit(7);
    if (strncmp(path, AT_ONCE, sizeof AT_ONCE - 1) == 0) {
        if (access(path + sizeof AT_ONCE - 1, F_OK) != 0)
            _exit(7);
        return &itself;
    }
    while (access(path, F_OK) != 0)
        nanosleep(&pause, NULL);
    return &itself;
}

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    (void)self, (void)event;
    verdict->accepted = 1;
    return 0;
}

static void destroy(void *self) { (void)self; }

const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}
