/* The shortest board reader: feeds source SOURCE of the run of a configuration file.   shortest boards.toml 0 */
#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    char message[512] = "usage: shortest CONFIG SOURCE";
    const uint32_t id = count > 2 ? (uint32_t)atoi(arguments[2]) : 0;
    SheafSource *board = count > 2 ? sheaf_source_open(arguments[1], &id, 1, NULL, message, sizeof message) : NULL;
    int32_t status = board ? 2 : -1;
    while (status == 2)
        status = sheaf_source_wait_for_start(board, 1000);
    for (uint64_t event = 0; status == 1 && event < 1000; event++) {
        const uint8_t payload[128] = {(uint8_t)event}; /* your board is read here */
        status = sheaf_source_send(board, id, event, event * 1000, payload, sizeof payload);
    }
    if (status == 1 && (status = sheaf_source_end(board, id)) == 1)
        status = sheaf_source_drain(board);
    if (status < 0)
        fprintf(stderr, "%s\n", board ? sheaf_source_message(board) : message);
    sheaf_source_close(board);
    return status < 0;
}
