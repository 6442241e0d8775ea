/* Returns 1 from a function whose `SheafSource *source` does not do what it must, and prints what. */
#ifndef SHEAF_TESTS_CHECK_H
#define SHEAF_TESTS_CHECK_H

#include <sheaf.h>
#include <stdio.h>

#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            fprintf(stderr, "line %d: not %s: %s\n", __LINE__, #condition, sheaf_source_message(source)); \
            return 1;                                                                            \
        }                                                                                        \
    } while (0)

#endif
