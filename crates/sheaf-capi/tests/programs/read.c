/* Prints the contents of an event file, a run directory or a fragment stream: an example of the readers, and their test. */
#include <sheaf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_bytes(const uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        printf("%02x", data[i]);
}

static int read_stream(SheafStream *stream) {
    uint64_t event;
    SheafFragment fragment;
    int status, damaged = 0;
    while ((status = sheaf_stream_next(stream, &event, &fragment)) != 0) {
        if (status < 0) {
            fprintf(stderr, "%s\n", sheaf_stream_message(stream));
            damaged = 1;
            continue;
        }
        printf("event %" PRIu64 " source %" PRIu32 " time %" PRIu64 " ", event, fragment.source, fragment.time_ns);
        print_bytes(fragment.data, fragment.bytes);
        printf("\n");
    }
    sheaf_stream_close(stream);
    return damaged;
}

static int read_events(SheafReader *reader) {
    SheafStoredEvent stored;
    int status, damaged = 0;
    while ((status = sheaf_reader_next(reader, &stored)) != 0) {
        if (status < 0) {
            fprintf(stderr, "%s\n", sheaf_reader_message(reader));
            damaged = 1;
            continue;
        }
        printf("event %" PRIu64 " time %" PRIu64 " type %" PRIu32 " tags %" PRIx64 " payload ", stored.event.id,
               stored.event.time_ns, stored.event.trigger_type, stored.tags);
        print_bytes(stored.payload, stored.payload_bytes);
        for (uint32_t bit = 0; bit < 64; bit++)
            if (stored.tags >> bit & 1 && sheaf_reader_tag(reader, bit))
                printf(" [%s]", sheaf_reader_tag(reader, bit));
        for (size_t i = 0; i < stored.event.fragment_count; i++) {
            const SheafFragment *fragment = &stored.event.fragments[i];
            printf(" %" PRIu32 ":", fragment->source);
            print_bytes(fragment->data, fragment->bytes);
            if (fragment->disagrees)
                printf("(%+" PRId32 ")", fragment->difference);
            else if (fragment->renumbered)
                printf("(moved %+" PRId32 ")", fragment->difference);
        }
        for (size_t i = 0; i < stored.event.missing_count; i++)
            printf(" -%" PRIu32, stored.event.missing[i].source);
        printf("\n");
    }
    sheaf_reader_close(reader);
    return damaged;
}

int main(int count, char **arguments) {
    char message[256];
    if (count != 2) {
        fprintf(stderr, "usage: read PATH\n");
        return 2;
    }
    SheafStream *stream = sheaf_stream_open(arguments[1], NULL, 0);
    if (stream)
        return read_stream(stream);
    SheafReader *reader = sheaf_reader_open(arguments[1], message, sizeof message);
    if (reader)
        return read_events(reader);
    fprintf(stderr, "%s\n", message);
    return 2;
}
