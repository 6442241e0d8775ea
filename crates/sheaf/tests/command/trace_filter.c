/*
 * A filter for tests of traces: wants every event. It takes 60 ms for events that end in 3, and fails in events that end in 7.
 */
#include <sheaf.h>
#include <time.h>

static const struct timespec slow = {0, 60000000};

static void *create(const SheafFilterSetup *setup) {
    (void)setup;
    return (void *)&slow;
}

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    if (event->id % 10 == 3) {
        nanosleep(self, NULL);
    }
    verdict->accepted = 1;
    return event->id % 10 == 7 ? 1 : 0;
}

static void destroy(void *self) { (void)self; }

const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}
