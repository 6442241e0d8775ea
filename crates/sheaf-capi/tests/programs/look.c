/* Watches a run: prints the accepted events that have a tag. */
#include <sheaf.h>
#include <inttypes.h>
#include <stdio.h>

int main(int count, char **arguments) {
    char message[256] = "";
    if (count != 3) {
        fprintf(stderr, "usage: look DOOR TAG\n");
        return 2;
    }
    const char *tags[] = {arguments[2]};
    const SheafTapSelection selection = {.tags = tags, .tag_count = 1};
    SheafTap *tap = sheaf_tap_open(arguments[1], &selection, "look", message, sizeof message);
    if (!tap) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    SheafStoredEvent stored;
    int32_t status;
    while ((status = sheaf_tap_next(tap, 100, &stored)) > 0) {
        if (status == 2)
            continue; /* nothing yet */
        printf("event %" PRIu64 " %s payload %zu\n", stored.event.id, sheaf_tap_tag(tap, 0), stored.payload_bytes);
        fflush(stdout);
    }
    if (status < 0)
        fprintf(stderr, "%s\n", sheaf_tap_message(tap));
    sheaf_tap_close(tap);
    return status < 0;
}
