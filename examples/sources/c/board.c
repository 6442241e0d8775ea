/* A board reader: feeds source SOURCE of the run of a configuration file with EVENTS events.   board boards.toml 0 1000
   Without arguments it feeds the source for which a run has started it (started.toml). */
#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    char message[512];
    uint32_t id = count > 2 ? (uint32_t)atoi(arguments[2]) : 0;
    const uint64_t events = count > 3 ? (uint64_t)atoll(arguments[3]) : 1000;
    SheafSource *source = count > 2 ? sheaf_source_open(arguments[1], &id, 1, NULL, message, sizeof message)
                                    : sheaf_source_open(NULL, NULL, 0, NULL, message, sizeof message);
    if (!source)
        return fprintf(stderr, "%s\n", message), 1;
    sheaf_source_id(source, 0, &id);
    uint64_t event = 0;
    if (sheaf_source_last_event(source, id, &event) == 1)
        event++; /* an earlier life of this program has sent those before */
    int32_t status = 2;
    while (status == 2)
        status = sheaf_source_wait_for_start(source, 1000);
    for (; status == 1 && event < events; event++) {
        uint16_t samples[64]; /* your board is read here */
        for (int at = 0; at < 64; at++)
            samples[at] = (uint16_t)(event + at);
        status = sheaf_source_send(source, id, event, event * 1000, samples, sizeof samples);
    }
    if (status == 1 && (status = sheaf_source_end(source, id)) == 1)
        status = sheaf_source_drain(source); /* 1: every fragment is in the accounts of the run; 0: the run has ended before */
    if (status < 0)
        fprintf(stderr, "%s\n", sheaf_source_message(source));
    sheaf_source_close(source);
    return status < 0;
}
