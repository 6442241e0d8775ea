/* Feeds sources 0 and 1 of a run in every way of the library, and checks the answers. */
#include "check.h"
#include <sheaf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int refuses_mistakes(SheafSource *source) {
    CHECK(sheaf_source_send(source, 9, 0, 0, "x", 1) == -1);
    CHECK(strstr(sheaf_source_message(source), "source 9 is not one of those that were opened"));
    CHECK(sheaf_source_send(source, 0, 0, 0, NULL, 1) == -1);
    CHECK(sheaf_source_send_many(source, 0, NULL, 3) == -1);
    const uint64_t events[2] = {0, 1}, falling[3] = {0, 3, 2};
    CHECK(sheaf_source_send_arrays(source, 0, 2, events, NULL, "abc", falling) == -1);
    CHECK(strstr(sheaf_source_message(source), "they must not fall"));
    CHECK(sheaf_source_progress(source, 9, NULL, NULL) == -1 && sheaf_source_end(source, 9) == -1);
    CHECK(sheaf_source_has_ended(source, 9) == -1 && sheaf_source_has_ended(NULL, 0) == -1);
    CHECK(sheaf_source_has_ended(source, 0) == 0);
    CHECK(sheaf_source_last_event(source, 0, NULL) == -1 && sheaf_source_decline(source, NULL) == -1);
    CHECK(sheaf_source_wait_for_start(NULL, 0) == -1 && sheaf_source_drain(NULL) == -1);
    return 0;
}

/* Events 4 to 6 of both sources: written where they are sent from. */
static int commits_in_place(SheafSource *source) {
    void *payload = NULL;
    int32_t status;
    CHECK(sheaf_source_commit(source, 4, 0, 0, 0) == -1);
    CHECK(strstr(sheaf_source_message(source), "no room is reserved"));
    CHECK(sheaf_source_reserve(source, 0, 1, NULL) == -1 && sheaf_source_try_reserve(source, 9, 1, &payload) == -1);
    for (uint32_t id = 0; id < 2; id++)
        for (uint64_t event = 4; event < 7; event++) {
            while ((status = sheaf_source_try_reserve(source, id, 100, &payload)) == 2)
                CHECK(sheaf_source_wait(source, 100) == 1);
            CHECK(status == 1);
            memset(payload, 'a' + (int)event, 100);
            CHECK(sheaf_source_commit(source, event, event, 101, 0) == -1);
            CHECK(sheaf_source_commit(source, event, event, 10 * event, event < 6) == 1);
        }
    CHECK(sheaf_source_reserve(source, 0, 5, &payload) == 1);
    return 0;
}

int main(int count, char **arguments) {
    char message[512] = "";
    if (count < 2)
        return fprintf(stderr, "usage: feed TARGET [REASON]\n"), 2;
    const uint32_t ids[2] = {0, 1};
    const SheafSourceOptions options = {.name = "feed.c", .patience_ms = 300000};
    /* A run starts when all of its sources have a program, and cannot be declined any more. */
    const size_t sources = count > 2 ? 1 : 2;
    SheafSource *source = sheaf_source_open(arguments[1], ids, sources, &options, message, sizeof message);
    if (!source)
        return fprintf(stderr, "%s\n", message), 1;
    if (count > 2)
        return sheaf_source_decline(source, arguments[2]) != 1;
    CHECK(refuses_mistakes(source) == 0);
    int32_t status;
    while ((status = sheaf_source_wait_for_start(source, 100)) == 2)
        continue;
    CHECK(status == 1 && sheaf_source_run(source) == 1);
    uint64_t last = 0, sent = 0, accepted = 0;
    CHECK(sheaf_source_last_event(source, 0, &last) == 0);
    /* Events 0 to 3 of source 0: one alone, one if there is room, two together. Events of source 1: all from arrays. */
    CHECK(sheaf_source_send(source, 0, 0, 10, "a", 1) == 1);
    while ((status = sheaf_source_try_send(source, 0, 1, 11, "bb", 2)) == 2)
        CHECK(sheaf_source_wait(source, 100) == 1);
    CHECK(status == 1);
    const SheafSentFragment two[2] = {{.event = 2, .time_ns = 12, .data = "ccc", .bytes = 3}, {.event = 3}};
    CHECK(sheaf_source_send_many(source, 0, two, 2) == 1);
    const uint64_t events[4] = {0, 1, 2, 3}, times[4] = {20, 21, 22, 23}, offsets[5] = {0, 0, 2, 2, 5};
    CHECK(sheaf_source_send_arrays(source, 1, 3, events, times, "ddeee", offsets) == 1);
    CHECK(sheaf_source_send_arrays(source, 1, 1, events + 3, NULL, "ddeee", offsets + 3) == 1);
    CHECK(sheaf_source_send_arrays(source, 1, 0, NULL, NULL, NULL, NULL) == 1);
    CHECK(commits_in_place(source) == 0);
    for (uint32_t id = 0; id < 2; id++)
        CHECK(sheaf_source_end(source, id) == 1);
    CHECK(sheaf_source_send(source, 0, 4, 0, "z", 1) == -1);
    CHECK(sheaf_source_drain(source) == 1);
    CHECK(sheaf_source_progress(source, 1, &sent, &accepted) == 1);
    printf("%" PRIu64 " sent, %" PRIu64 " accepted\n", sent, accepted);
    sheaf_source_close(source);
    sheaf_source_close(NULL);
    return 0;
}
