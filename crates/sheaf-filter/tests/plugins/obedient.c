/* A filter that does what the first byte of an event says, right or wrong: for the tests of what loads it. */
#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 1
#endif

typedef struct {
    uint8_t *large;
    uint8_t payload[2];
} Filter;

static int alive = 0;

static void *create(const SheafFilterSetup *setup) {
    if (strcmp(setup->parameters, "refuse") == 0) {
        snprintf(setup->message, setup->message_bytes, "run %u has %zu tags", setup->run, setup->tag_count);
        return NULL;
    }
    if (strcmp(setup->parameters, "silent") == 0)
        return NULL;
    Filter *filter = calloc(1, sizeof *filter);
    if (filter)
        filter->large = calloc(1, (1 << 20) + 1);
    alive++;
    return filter;
}

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    Filter *filter = self;
    uint8_t order = event->fragment_count > 0 && event->fragments[0].bytes > 0 ? event->fragments[0].data[0] : 0;
    verdict->accepted = 1;
    switch (order) {
    case 'v': /* the version of this library, and how many of its filters there are */
        filter->payload[0] = VERSION;
        filter->payload[1] = (uint8_t)alive;
        verdict->payload = filter->payload;
        verdict->payload_bytes = 2;
        return 0;
    case 'd': /* the mark of the first fragment */
        filter->payload[0] = (uint8_t)(event->fragments[0].disagrees | event->fragments[0].renumbered << 1);
        filter->payload[1] = (uint8_t)event->fragments[0].difference;
        verdict->payload = filter->payload;
        verdict->payload_bytes = 2;
        return 0;
    case 't':
        verdict->tags = 1;
        return 0;
    case 'r':
        verdict->accepted = 0;
        verdict->payload = filter->payload;
        verdict->payload_bytes = 2;
        return 0;
    case 'm':
        verdict->payload = filter->large;
        verdict->payload_bytes = 1 << 20;
        return 0;
    case 'n': /* null with a length */
        verdict->payload_bytes = 5;
        return 0;
    case 'l': /* too large */
        verdict->payload = filter->large;
        verdict->payload_bytes = (1 << 20) + 1;
        return 0;
    case 'w': /* a length that no memory has */
        verdict->payload = filter->large;
        verdict->payload_bytes = (size_t)-1;
        return 0;
    case '2':
        verdict->accepted = 2;
        return 0;
    case 'q': /* the tag that only Sheaf gives */
        verdict->tags = UINT64_C(1) << 63;
        return 0;
    case 'f':
        verdict->failure = "the chamber is off";
        return 1;
    case 's': /* no verdict, and no word */
        return -3;
    default:
        return 0;
    }
}

static void destroy(void *self) {
    Filter *filter = self;
    alive--;
    free(filter->large);
    free(filter);
}

const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}

/* Tables that are none. */
SHEAF_EXPORT const SheafFilterTable *null_table(void);
const SheafFilterTable *null_table(void) { return NULL; }

SHEAF_EXPORT const SheafFilterTable *crooked_table(void);
const SheafFilterTable *crooked_table(void) { return (const SheafFilterTable *)((const char *)sheaf_filter() + 1); }

SHEAF_EXPORT const SheafFilterTable *future_table(void);
const SheafFilterTable *future_table(void) {
    static const SheafFilterTable table = {99, sizeof table, create, judge, destroy};
    return &table;
}

SHEAF_EXPORT const SheafFilterTable *old_table(void);
const SheafFilterTable *old_table(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI - 1, sizeof table, create, judge, destroy};
    return &table;
}

SHEAF_EXPORT const SheafFilterTable *short_table(void);
const SheafFilterTable *short_table(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, 8, create, judge, destroy};
    return &table;
}

SHEAF_EXPORT const SheafFilterTable *empty_table(void);
const SheafFilterTable *empty_table(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, NULL, NULL, NULL};
    return &table;
}
