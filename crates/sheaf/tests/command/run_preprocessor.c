/*
 * A preprocessor for tests of runs that follow one another: the result for a fragment is the number of the run, its source and its event. In
 * a process of a readout unit it cannot be made while the file is missing whose path its parameters are.
 */
#include <fcntl.h>
#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The run itself makes it once, to check its parameters. */
static int is_worker(void) {
    char arguments[4096] = {0};
    int file = open("/proc/self/cmdline", O_RDONLY);
    ssize_t bytes = read(file, arguments, sizeof arguments - 1);
    close(file);
    return bytes > 0 && strcmp(arguments + strlen(arguments) + 1, "preprocessor") == 0;
}

static void *create(const SheafFilterSetup *setup) {
    if (is_worker() && setup->parameters[0] != 0 && access(setup->parameters, F_OK) != 0) {
        snprintf(setup->message, setup->message_bytes, "the table is missing");
        return NULL;
    }
    uint32_t *run = malloc(sizeof *run);
    *run = setup->run;
    return run;
}

static int32_t process(void *it, const SheafRawFragment *raw, SheafProcessed *made) {
    if (made->room < 16) {
        made->failure = "there is no room";
        return 1;
    }
    memcpy(made->data, it, 4);
    memcpy(made->data + 4, &raw->source, 4);
    memcpy(made->data + 8, &raw->event, 8);
    made->bytes = 16;
    return 0;
}

const SheafPreprocessorTable *sheaf_preprocessor(void) {
    static const SheafPreprocessorTable table = {SHEAF_FILTER_ABI, sizeof table, create, process, free};
    return &table;
}
