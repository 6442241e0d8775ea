/*
 * The example library of sources in C: each source has a board whose samples are a ramp. Parameters: "events=1000 samples=64".
 *
 *   cc -O2 -shared -fPIC -I ../../../../crates/sheaf-capi/include -o libramp.so ramp.c
 */
#include <sheaf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t next, events;
    size_t samples, sources, boards_in_memory;
    uint32_t *ids;
    uint8_t *memory; /* payloads of the last poll */
} Ramp;

static void close_boards(void *self) {
    Ramp *ramp = self;
    free(ramp->ids);
    free(ramp->memory);
    free(ramp);
}

static void *open_boards(const SheafSourceSetup *setup) {
    Ramp *ramp = calloc(1, sizeof *ramp);
    int end = 0;
    if (ramp == NULL)
        return NULL;
    if (sscanf(setup->parameters, "events=%" SCNu64 " samples=%4zu%n", &ramp->events, &ramp->samples, &end) != 2 ||
        setup->parameters[end] != '\0') {
        snprintf(setup->message, setup->message_bytes,
                 "`source.library.parameters` should be like \"events=1000 samples=64\"");
        free(ramp);
        return NULL;
    }
    /* Connect to the hardware here. */
    ramp->sources = setup->source_count;
    ramp->ids = malloc(ramp->sources * sizeof *ramp->ids);
    if (ramp->ids == NULL) {
        close_boards(ramp);
        return NULL;
    }
    memcpy(ramp->ids, setup->sources, ramp->sources * sizeof *ramp->ids);
    return ramp;
}

static int32_t poll_boards(void *self, SheafPollBatch *batch) {
    Ramp *ramp = self;
    const size_t bytes = 2 * ramp->samples;
    const size_t most = batch->room / ramp->sources; /* events in a batch */
    if (most == 0) {
        batch->failure = "raise `source.library.batch_fragments` to the number of sources";
        return 1;
    }
    if (ramp->boards_in_memory != most) {
        free(ramp->memory);
        ramp->memory = malloc(most * ramp->sources * bytes + 1);
        ramp->boards_in_memory = ramp->memory != NULL ? most : 0;
        if (ramp->memory == NULL) {
            batch->failure = "no memory";
            return 1;
        }
    }
    uint8_t *payload = ramp->memory;
    for (size_t event = 0; event < most && ramp->next < ramp->events; event++, ramp->next++) {
        for (size_t board = 0; board < ramp->sources; board++, payload += bytes) {
            for (size_t at = 0; at < ramp->samples; at++) { /* read the hardware here */
                const uint64_t sample = ramp->next + ramp->ids[board] + at;
                payload[2 * at] = (uint8_t)sample;
                payload[2 * at + 1] = (uint8_t)(sample >> 8);
            }
            batch->fragments[batch->count++] = (SheafPolledFragment){.event = ramp->next,
                                                                     .time_ns = 1000 * ramp->next,
                                                                     .source = ramp->ids[board],
                                                                     .data = payload,
                                                                     .bytes = bytes};
        }
    }
    batch->then = ramp->next < ramp->events ? SHEAF_POLL_MORE : SHEAF_POLL_END;
    return 0;
}

const SheafSourceTable *sheaf_source(void) {
    static const SheafSourceTable table = {.abi = SHEAF_FILTER_ABI,
                                           .table_bytes = sizeof table,
                                           .open = open_boards,
                                           .poll = poll_boards,
                                           .close = close_boards};
    return &table;
}
