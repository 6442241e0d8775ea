/*
 * The example library of triggers in C: a pulser with a veto. Parameters: "period_us=1000 triggers=2000".
 *
 *   cc -O2 -shared -fPIC -I ../../../../crates/sheaf-capi/include -o libpulser.so pulser.c
 */
#define _POSIX_C_SOURCE 199309L
#include <sheaf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    uint64_t period_ns, triggers;
    uint64_t next;    /* id of the next trigger */
    uint64_t pulses;  /* so far, with those that were held back */
    uint64_t started; /* on the clock of the device */
    bool is_busy;
} Pulser;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *open_pulser(const SheafTriggerSetup *setup) {
    Pulser *pulser = calloc(1, sizeof *pulser);
    uint64_t period_us = 0;
    int end = 0;
    if (pulser == NULL)
        return NULL;
    if (sscanf(setup->parameters, "period_us=%9" SCNu64 " triggers=%" SCNu64 "%n", &period_us, &pulser->triggers,
               &end) != 2 ||
        setup->parameters[end] != '\0') {
        snprintf(setup->message, setup->message_bytes,
                 "`trigger.library.parameters` should be like \"period_us=1000 triggers=2000\"");
        free(pulser);
        return NULL;
    }
    pulser->period_ns = 1000 * period_us;
    /* Connect to the hardware here. */
    return pulser;
}

static void start_pulser(void *self, uint64_t next) {
    Pulser *pulser = self;
    pulser->next = next;
    pulser->started = now_ns(); /* Let the hardware take triggers here. */
}

/* Tells the hardware to hold triggers back, or no longer. */
static void hold_pulser(void *self, const char *reason) {
    ((Pulser *)self)->is_busy = reason != NULL;
}

static int32_t poll_pulser(void *self, SheafTriggerBatch *batch) {
    Pulser *pulser = self;
    const uint64_t time = now_ns() - pulser->started;
    batch->then = SHEAF_POLL_MORE;
    while (batch->count < batch->room) { /* Read the hardware here. */
        if (pulser->triggers == 0) {
            batch->then = SHEAF_POLL_END;
            break;
        }
        const uint64_t due = pulser->pulses * pulser->period_ns;
        if (due > time) {
            batch->then = SHEAF_POLL_WAIT;
            batch->wait_ns = due - time;
            break;
        }
        pulser->pulses++;
        if (pulser->is_busy) {
            batch->vetoed++;
            batch->then = SHEAF_POLL_WAIT;
            break;
        }
        pulser->triggers--;
        batch->triggers[batch->count++] = (SheafPolledTrigger){.id = pulser->next++, .time_ns = due, .bits = 1, .kind = 7};
    }
    return 0;
}

static void close_pulser(void *self) {
    free(self);
}

const SheafTriggerTable *sheaf_trigger(void) {
    static const SheafTriggerTable table = {.abi = SHEAF_FILTER_ABI,
                                            .table_bytes = sizeof table,
                                            .open = open_pulser,
                                            .start = start_pulser,
                                            .poll = poll_pulser,
                                            .busy = hold_pulser,
                                            .close = close_pulser};
    return &table;
}
