/*
 * A filter that sleeps: `filter.parameters` is "EVERY FROM MICROSECONDS". Of each EVERY events that a filter judges the one with the
 * number FROM takes so long, the others no time. All events are wanted.
 */
#include <sheaf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    uint64_t every, from, microseconds;
} Sleeper;

static void *create(const SheafFilterSetup *setup) {
    Sleeper *sleeper = calloc(1, sizeof *sleeper);
    if (sleeper != NULL && sscanf(setup->parameters, "%" SCNu64 " %" SCNu64 " %" SCNu64, &sleeper->every,
                                  &sleeper->from, &sleeper->microseconds) == 3 && sleeper->every > 0)
        return sleeper;
    snprintf(setup->message, setup->message_bytes, "`filter.parameters` should be \"EVERY FROM MICROSECONDS\"");
    free(sleeper);
    return NULL;
}

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    Sleeper *sleeper = self;
    if (event->id % sleeper->every == sleeper->from) {
        struct timespec left = {(time_t)(sleeper->microseconds / 1000000),
                                (long)(sleeper->microseconds % 1000000) * 1000};
        /* A signal, such as that of a frozen process going on, is no reason to be early. */
        while (nanosleep(&left, &left) != 0) {
        }
    }
    verdict->accepted = 1;
    return 0;
}

static void destroy(void *filter) { free(filter); }

const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}
