/* Feeds the sources of a run as fast as libsheaf allows:   feeder BYTES BATCH
 *
 * `sheaf bench feed --client ./feeder` measures it. BYTES is the payload of a fragment, BATCH the number of fragments in a call. */

#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that are written before the first are written again: what a core's cache holds. */
#define CYCLE (1 << 20)

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: feeder BYTES BATCH\n");
        return 2;
    }
    size_t bytes = strtoul(argv[1], NULL, 10), batch = strtoul(argv[2], NULL, 10);
    if (batch == 0) {
        fprintf(stderr, "feeder: a call has at least one fragment\n");
        return 2;
    }
    char message[256];
    struct SheafSource *source = sheaf_source_open(NULL, NULL, 0, NULL, message, sizeof message);
    if (source == NULL) {
        fprintf(stderr, "feeder: %s\n", message);
        return 1;
    }
    uint32_t id = 0;
    sheaf_source_id(source, 0, &id);
    size_t cycle = bytes * batch > CYCLE ? bytes * batch : CYCLE, at = 0;
    unsigned char *memory = malloc(cycle);
    struct SheafSentFragment *fragments = calloc(batch, sizeof *fragments);
    if (memory == NULL || fragments == NULL) {
        fprintf(stderr, "feeder: no memory\n");
        return 1;
    }
    int32_t sent;
    do {
        sent = sheaf_source_wait_for_start(source, 1000);
    } while (sent == 2);
    for (uint64_t event = 0; sent == 1; event += batch) {
        if (at + bytes * batch > cycle) {
            at = 0;
        }
        memset(memory + at, (int)(event & 0xff), bytes * batch); /* the board is read here */
        for (size_t i = 0; i < batch; i++) {
            fragments[i].event = event + i;
            fragments[i].time_ns = event + i;
            fragments[i].data = memory + at + i * bytes;
            fragments[i].bytes = bytes;
        }
        at += bytes * batch;
        sent = sheaf_source_send_many(source, id, fragments, batch);
    }
    if (sent < 0) {
        fprintf(stderr, "feeder: %s\n", sheaf_source_message(source));
    }
    sheaf_source_close(source);
    free(fragments);
    free(memory);
    return sent < 0 ? 1 : 0;
}
