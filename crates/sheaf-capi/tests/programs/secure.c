/* Feeds source 0 of a run with 100 fragments, over a network with certificates and a key: those of the arguments, else those of the
   configuration file. */
#include "check.h"
#include <sheaf.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
    char message[1024] = "";
    if (count < 2)
        return fprintf(stderr, "usage: secure TARGET [KEY [CERTIFICATE CERTIFICATE_KEY AUTHORITY]]\n"), 2;
    SheafSourceOptions options = {.name = "secure.c", .patience_ms = 300000};
    if (count > 2 && strcmp(arguments[2], "none"))
        options.key_file = arguments[2];
    if (count > 3)
        options.tls_certificate = arguments[3];
    if (count > 5) {
        options.tls_key = arguments[4];
        options.tls_authority = arguments[5];
    }
    const uint32_t id = 0;
    SheafSource *source = sheaf_source_open(arguments[1], &id, 1, &options, message, sizeof message);
    if (!source)
        return fprintf(stderr, "%s\n", message), 1;
    int32_t status;
    while ((status = sheaf_source_wait_for_start(source, 100)) == 2)
        continue;
    CHECK(status == 1);
    for (uint64_t event = 0; event < 100; event++)
        CHECK(sheaf_source_send(source, 0, event, 0, "fragment", 8) == 1);
    CHECK(sheaf_source_end(source, 0) == 1 && sheaf_source_drain(source) == 1);
    sheaf_source_close(source);
    return 0;
}
