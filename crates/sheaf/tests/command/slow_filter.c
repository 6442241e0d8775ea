/*
 * A filter for tests: wants every event, and takes as many milliseconds for each as its parameters say. It sleeps, so that a test of a
 * slow filter costs no processor time.
 */
#include <sheaf.h>
#include <stdlib.h>
#include <time.h>

static struct timespec each;

static void *create(const SheafFilterSetup *setup) {
    const long milliseconds = strtol(setup->parameters, NULL, 10);
    each.tv_sec = milliseconds / 1000;
    each.tv_nsec = milliseconds % 1000 * 1000000;
    return &each;
}

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    (void)event;
    nanosleep(self, NULL);
    verdict->accepted = 1;
    return 0;
}

static void destroy(void *self) { (void)self; }

const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}
