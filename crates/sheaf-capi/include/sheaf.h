/*
 * Sheaf for programs in C, and what a filter library shares with Sheaf.
 *
 * Generated from the sources of sheaf-filter and sheaf-capi; do not edit. How to write a filter: docs/howto/filter-in-c.md.
 * All texts are UTF-8 and end with a NUL.
 */
#ifndef SHEAF_H
#define SHEAF_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SHEAF_EXPORT __attribute__((visibility("default")))
#else
#define SHEAF_EXPORT
#endif

/**
 * The version of the interface between Sheaf and filters. It changes when a filter of before would misread something.
 */
#define SHEAF_FILTER_ABI 1

/**
 * What one source saw of an event.
 */
typedef struct SheafFragment {
  /**
   * The source's number.
   */
  uint32_t source;
  /**
   * Always 0.
   */
  uint32_t reserved;
  /**
   * The source's own time of the event; 0 where it has none.
   */
  uint64_t time_ns;
  /**
   * The payload, where it was received: nothing is copied. Never null.
   */
  const uint8_t *data;
  /**
   * How long the payload is; may be 0.
   */
  size_t bytes;
} SheafFragment;

/**
 * A source without a fragment in an event.
 */
typedef struct SheafMissing {
  /**
   * The source's number.
   */
  uint32_t source;
  /**
   * Why: the code of a missing reason in docs/reference/protocol.md.
   */
  uint32_t reason;
} SheafMissing;

/**
 * A built event. It and all it points to belong to the caller, and are valid during the call.
 */
typedef struct SheafEvent {
  /**
   * The event's number in the run.
   */
  uint64_t id;
  /**
   * When it was triggered.
   */
  uint64_t time_ns;
  /**
   * What kind of trigger it was, in the experiment's own numbering.
   */
  uint32_t trigger_type;
  /**
   * Which attempt to build it this was, from 1.
   */
  uint32_t attempt;
  /**
   * 1 where a required source is missing, else 0.
   */
  uint32_t incomplete;
  /**
   * Always 0.
   */
  uint32_t reserved;
  /**
   * The fragments, in ascending order of source number.
   */
  const struct SheafFragment *fragments;
  /**
   * How many fragments there are.
   */
  size_t fragment_count;
  /**
   * The missing sources, in ascending order.
   */
  const struct SheafMissing *missing;
  /**
   * How many sources are missing.
   */
  size_t missing_count;
} SheafEvent;

/**
 * What a filter says of an event. All fields are 0 or null when the filter is called.
 */
typedef struct SheafFilterVerdict {
  /**
   * 1: the event is to be stored; 0: it is not wanted. Nothing else is a verdict.
   */
  uint32_t accepted;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * Bit i: the i-th tag of the setup. A bit without a tag is no verdict.
   */
  uint64_t tags;
  /**
   * What is stored with the event, or null. It belongs to the filter, and stays as it is until the filter is called again.
   */
  const uint8_t *payload;
  /**
   * How long the payload is: 0 to 1 MiB.
   */
  size_t payload_bytes;
  /**
   * Where the filter has no verdict: why, or null. It belongs to the filter, as the payload does.
   */
  const char *failure;
} SheafFilterVerdict;

/**
 * What a filter is told when it is made. It and all it points to are valid during the call.
 */
typedef struct SheafFilterSetup {
  /**
   * The version of the interface that the caller has.
   */
  uint32_t abi;
  /**
   * The number of the run.
   */
  uint32_t run;
  /**
   * `filter.parameters` of the configuration, as it is there; empty where it has none.
   */
  const char *parameters;
  /**
   * `filter.tags` of the configuration: names of tags, the first is bit 0.
   */
  const char *const *tags;
  /**
   * How many tags there are: 0 to 63.
   */
  size_t tag_count;
  /**
   * Where the filter writes why it cannot be made, with a NUL at the end.
   */
  char *message;
  /**
   * How many bytes fit there.
   */
  size_t message_bytes;
} SheafFilterSetup;

/**
 * What a filter library can do. It stays as it is while the library is loaded.
 *
 * Several filters may be made of one table, each is called by one thread at a time; two filters may be called by two
 * threads at the same time.
 */
typedef struct SheafFilterTable {
  /**
   * The version of the interface that the library was made with: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * The size of this struct as the library knows it.
   */
  uint32_t table_bytes;
  /**
   * Makes a filter for a run. Null: that is not possible, and the setup's `message` says why; the run does not start.
   */
  void *(*create)(const struct SheafFilterSetup *setup);
  /**
   * Judges an event. 0: the verdict is filled in. Anything else: there is none, and the verdict's `failure` says why; the
   * event is stored as it was built and tagged `quarantined`.
   */
  int32_t (*judge)(void *filter, const struct SheafEvent *event, struct SheafFilterVerdict *verdict);
  /**
   * Unmakes a filter, which is not called again; may be null.
   */
  void (*destroy)(void *filter);
} SheafFilterTable;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of this library, such as "0.1.0". The text is constant.
 */
const char *sheaf_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/**
 * What a filter library defines: its table. Sheaf calls it once for each filter that it makes. A library with several filters
 * has several such functions of other names, and `filter.symbol` of the configuration says which is meant.
 */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafFilterTable *sheaf_filter(void);

#endif /* SHEAF_H */
