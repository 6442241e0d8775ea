/*
 * The example preprocessor in C: leaves out the samples below a threshold. ../README.md says what it makes.
 *
 *   cc -O2 -shared -fPIC -I ../../../crates/sheaf-capi/include -o libzero_suppression.so zero_suppression.c
 */
#include <sheaf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint16_t threshold;
} ZeroSuppression;

static void *create(const SheafFilterSetup *setup) {
    unsigned threshold = 0;
    int end = 0;
    if (sscanf(setup->parameters, "threshold=%5u%n", &threshold, &end) != 1 || threshold > UINT16_MAX ||
        setup->parameters[end] != '\0') {
        snprintf(setup->message, setup->message_bytes,
                 "`preprocessing.parameters` should be like \"threshold=200\"");
        return NULL;
    }
    ZeroSuppression *preprocessor = calloc(1, sizeof *preprocessor);
    if (preprocessor == NULL)
        snprintf(setup->message, setup->message_bytes, "no memory");
    else
        preprocessor->threshold = (uint16_t)threshold;
    return preprocessor;
}

/* A sample: 16 bits, the low byte first. */
static uint16_t sample(const SheafRawFragment *fragment, size_t index) {
    return (uint16_t)(fragment->data[2 * index] | fragment->data[2 * index + 1] << 8);
}

/* Writes a number of 32 bits, the low byte first. */
static void put(uint8_t *bytes, size_t value) {
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static int32_t process(void *self, const SheafRawFragment *fragment, SheafProcessed *processed) {
    const ZeroSuppression *preprocessor = self;
    const size_t samples = fragment->bytes / 2;
    size_t at = 0, end = 4;
    processed->keep = 1;
    /* What has no whole samples is not ours, and what gets no smaller leaves as it is. */
    if (fragment->bytes % 2 != 0 || samples > UINT32_MAX || processed->room < 4)
        return 0;
    put(processed->data, samples);
    while (at < samples) {
        if (sample(fragment, at) < preprocessor->threshold) {
            at++;
            continue;
        }
        size_t begin = at;
        while (at < samples && sample(fragment, at) >= preprocessor->threshold)
            at++;
        size_t bytes = 2 * (at - begin);
        if (processed->room - end < 8 + bytes)
            return 0;
        put(processed->data + end, begin);
        put(processed->data + end + 4, at - begin);
        memcpy(processed->data + end + 8, fragment->data + 2 * begin, bytes);
        end += 8 + bytes;
    }
    if (end < fragment->bytes) {
        processed->keep = 0;
        processed->bytes = end;
    }
    return 0;
}

static void destroy(void *self) { free(self); }

const SheafPreprocessorTable *sheaf_preprocessor(void) {
    static const SheafPreprocessorTable table = {SHEAF_FILTER_ABI, sizeof table, create, process, destroy};
    return &table;
}
