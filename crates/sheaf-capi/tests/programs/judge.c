/* Joins a run and judges its events: accepts those with an even number, with their number of fragments as payload. */
#include <sheaf.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t divisor;
    uint8_t fragments;
} Divides;

static void *create(const SheafFilterSetup *setup) {
    uint64_t divisor = 0;
    if (setup->tag_count != 1 || strcmp(setup->tags[0], "even") != 0 ||
        sscanf(setup->parameters, "%" SCNu64, &divisor) != 1 || divisor == 0) {
        snprintf(setup->message, setup->message_bytes, "the parameters should be a number, not \"%s\"",
                 setup->parameters);
        return NULL;
    }
    Divides *filter = calloc(1, sizeof *filter);
    if (filter)
        filter->divisor = divisor;
    return filter;
}

static int32_t judge(void *self, const SheafEvent *event, SheafFilterVerdict *verdict) {
    Divides *filter = self;
    for (size_t i = 0; i < event->fragment_count; i++)
        for (size_t j = 0; j < event->fragments[i].bytes; j++)
            if (event->fragments[i].data[j] != (uint8_t)event->id) {
                verdict->failure = "the event is not whole";
                return 1;
            }
    verdict->accepted = event->id % filter->divisor == 0;
    verdict->tags = verdict->accepted;
    filter->fragments = (uint8_t)event->fragment_count;
    verdict->payload = &filter->fragments;
    verdict->payload_bytes = 1;
    return 0;
}

static void stop(int signal) {
    (void)signal;
    sheaf_processor_stop();
}

int main(int count, char **arguments) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, free};
    char message[256] = "";
    if (count < 2) {
        fprintf(stderr, "usage: judge DOOR [PARAMETERS]\n");
        return 2;
    }
    signal(SIGTERM, stop);
    int64_t judged =
        sheaf_processor_join(arguments[1], &table, count > 2 ? arguments[2] : NULL, message, sizeof message);
    if (judged < 0) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    printf("%" PRId64 " events judged\n", judged);
    return 0;
}
