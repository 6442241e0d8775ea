/*
 * A filter for tests: wants every event, and does not return from its call with event 5 before a file is there. Its parameters are the
 * path of that file.
 */
#include <sheaf.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *create(const SheafFilterSetup *setup) { return strdup(setup->parameters); }

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    const struct timespec pause = {0, 1000000};
    while (event->id == 5 && access(self, F_OK) != 0)
        nanosleep(&pause, NULL);
    verdict->accepted = 1;
    return 0;
}

static void destroy(void *self) { free(self); }

const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}
