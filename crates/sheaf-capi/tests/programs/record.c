/* Feeds source 0 of a run, and sends records of it before, during and after the run. */
#include "check.h"
#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEGIN = 1, END = 2, SLOW_CONTROL = 3 };

static int refuses_mistakes(SheafSource *source) {
    CHECK(sheaf_source_record(source, 0, 9, 1, "x", "y", 1) == -1);
    CHECK(strstr(sheaf_source_message(source), "it must be 1, 2 or 3"));
    CHECK(sheaf_source_record(source, 0, BEGIN, 1, NULL, "y", 1) == -1);
    CHECK(sheaf_source_record(source, 0, BEGIN, 1, "\xff", "y", 1) == -1);
    CHECK(strstr(sheaf_source_message(source), "not UTF-8"));
    CHECK(sheaf_source_record(source, 0, BEGIN, 1, "x", NULL, 1) == -1);
    CHECK(sheaf_source_record(source, 5, BEGIN, 1, "x", "y", 1) == -1);
    return 0;
}

int main(int count, char **arguments) {
    char message[512] = "";
    if (count < 2)
        return fprintf(stderr, "usage: record TARGET\n"), 2;
    const uint32_t id = 0;
    const SheafSourceOptions options = {.name = "record.c", .patience_ms = 300000, .late_records = 1};
    SheafSource *source = sheaf_source_open(arguments[1], &id, 1, &options, message, sizeof message);
    if (!source)
        return fprintf(stderr, "%s\n", message), 1;
    CHECK(refuses_mistakes(source) == 0);
    CHECK(sheaf_source_record(source, 0, BEGIN, 1, "config.toml", "gain = 3", 8) == 1);
    CHECK(sheaf_source_record(source, 0, BEGIN, 1, "config.toml", "gain = 3", 8) == 1);
    int32_t status;
    while ((status = sheaf_source_wait_for_start(source, 100)) == 2)
        continue;
    CHECK(status == 1);
    for (uint64_t event = 0; event < 100; event++)
        CHECK(sheaf_source_send(source, 0, event, event, "abc", 3) == 1);
    CHECK(sheaf_source_record(source, 0, SLOW_CONTROL, 2, "empty", NULL, 0) == 1);
    CHECK(sheaf_source_end(source, 0) == 1);
    CHECK(sheaf_source_drain(source) == 1);
    while ((status = sheaf_source_wait_for_end(source, 100)) == 2)
        continue;
    CHECK(status == 1);
    const size_t bytes = 1 << 20;
    char *counters = calloc(bytes, 1);
    CHECK(counters && sheaf_source_record(source, 0, END, 3, "counters", counters, bytes) == 1);
    free(counters);
    sheaf_source_close(source);
    return 0;
}
