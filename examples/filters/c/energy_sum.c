/*
 * The example filter in C: wants events with much energy, or with two sources that have some. ../README.md says what it
 * computes.
 *
 *   cc -O2 -shared -fPIC -I ../../../crates/sheaf-capi/include -o libenergy_sum.so energy_sum.c
 */
#include <sheaf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t sum_min;    /* the least energy of an event that is wanted */
    uint64_t source_min; /* the least energy of a source that counts */
    uint64_t sum_tag;
    uint64_t pair_tag;
    uint8_t payload[12]; /* read by Sheaf until the next call */
} EnergySum;

/* The bit of the tag `name`; 0 where the configuration has no such tag. */
static uint64_t tag(const SheafFilterSetup *setup, const char *name) {
    for (size_t bit = 0; bit < setup->tag_count; bit++)
        if (strcmp(setup->tags[bit], name) == 0)
            return UINT64_C(1) << bit;
    return 0;
}

static void *create(const SheafFilterSetup *setup) {
    EnergySum *filter = calloc(1, sizeof *filter);
    if (filter == NULL) {
        snprintf(setup->message, setup->message_bytes, "no memory");
        return NULL;
    }
    filter->sum_tag = tag(setup, "sum");
    filter->pair_tag = tag(setup, "pair");
    if (filter->sum_tag == 0 || filter->pair_tag == 0) {
        snprintf(setup->message, setup->message_bytes, "the filter uses the tags `sum` and `pair`; add them to `filter.tags`");
        free(filter);
        return NULL;
    }
    int end = 0;
    if (sscanf(setup->parameters, " sum=%" SCNu64 " source=%" SCNu64 " %n", &filter->sum_min,
               &filter->source_min, &end) != 2 || setup->parameters[end] != '\0') {
        snprintf(setup->message, setup->message_bytes,
                 "`filter.parameters` should be like \"sum=100000 source=40000\"");
        free(filter);
        return NULL;
    }
    return filter;
}

/* The sum of the samples: 16 bits each, the low byte first. */
static uint64_t energy(const SheafFragment *fragment) {
    uint64_t sum = 0;
    for (size_t i = 0; i + 1 < fragment->bytes; i += 2)
        sum += (uint64_t)fragment->data[i] | (uint64_t)fragment->data[i + 1] << 8;
    return sum;
}

static void put(uint8_t *bytes, uint64_t value, int count) {
    for (int i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    EnergySum *filter = self;
    uint64_t sum = 0, sources = 0;
    for (size_t i = 0; i < event->fragment_count; i++) {
        uint64_t of_source = energy(&event->fragments[i]);
        sum += of_source;
        sources += of_source >= filter->source_min;
    }
    if (sum >= filter->sum_min)
        verdict->tags |= filter->sum_tag;
    if (sources >= 2)
        verdict->tags |= filter->pair_tag;
    verdict->accepted = verdict->tags != 0;
    put(filter->payload, sum, 8);
    put(filter->payload + 8, sources, 4);
    verdict->payload = filter->payload;
    verdict->payload_bytes = sizeof filter->payload;
    return 0;
}

static void destroy(void *filter) { free(filter); }

const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}
