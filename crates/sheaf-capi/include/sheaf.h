/*
 * Sheaf for programs in C, and what a library with a filter or a preprocessor shares with Sheaf.
 *
 * Generated from the sources of sheaf-filter and sheaf-capi; do not edit. How to write a filter: docs/howto/filter-in-c.md;
 * a preprocessor: docs/howto/preprocessor.md.
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

/** The tag that Sheaf itself gives: the filter gave no verdict, and the event is stored as it was built. */
#define SHEAF_TAG_QUARANTINED (UINT64_C(1) << 63)

/**
 * The version of the interface between Sheaf and filters. It changes when a filter of before would misread something.
 */
#define SHEAF_FILTER_ABI 1

/**
 * The event is rejected; readout units drop what they still hold of it.
 */
#define SHEAF_STEP_REJECT 0

/**
 * All the rest of the event is asked for; then the filter judges it.
 */
#define SHEAF_STEP_ALL 1

/**
 * The event needs no more sources: the filter judges it as it is.
 */
#define SHEAF_STEP_ENOUGH 2

/**
 * The sources in the verdict's list are asked for; then the step filter is called again.
 */
#define SHEAF_STEP_SOURCES 3

/**
 * Reads the events of an event file or of a run directory.
 */
typedef struct SheafReader SheafReader;

/**
 * Reads the fragments of one source.
 */
typedef struct SheafStream SheafStream;

/**
 * Gets a sample of a run's accepted events.
 */
typedef struct SheafTap SheafTap;

/**
 * Setup of a filter, a step filter or a preprocessor, passed when it is created. The structure and all that it points
 * to are valid during the call.
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
   * `filter.parameters` of the configuration (of a step filter `building.parameters`, of a preprocessor
   * `preprocessing.parameters`), as it is there; empty where it has none.
   */
  const char *parameters;
  /**
   * `filter.tags` of the configuration: names of tags, the first is bit 0. A preprocessor is told none.
   */
  const char *const *tags;
  /**
   * Number of tags: 0 to 63.
   */
  size_t tag_count;
  /**
   * Where it writes why it cannot be made, with a NUL at the end.
   */
  char *message;
  /**
   * Size of that buffer in bytes.
   */
  size_t message_bytes;
} SheafFilterSetup;

/**
 * Fragment of one source of an event.
 */
typedef struct SheafFragment {
  /**
   * The source's number.
   */
  uint32_t source;
  /**
   * 1 where the readout unit's preprocessor made the payload, 0 where it is as the source sent it.
   */
  uint32_t processed;
  /**
   * The source's own time of the event; 0 where it has none.
   */
  uint64_t time_ns;
  /**
   * The payload, where it was received: nothing is copied. Never null.
   */
  const uint8_t *data;
  /**
   * Size of the payload; may be 0.
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
   * Trigger type, in the experiment's own numbering.
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
   * Number of fragments.
   */
  size_t fragment_count;
  /**
   * The missing sources, in ascending order.
   */
  const struct SheafMissing *missing;
  /**
   * Number of missing sources.
   */
  size_t missing_count;
} SheafEvent;

/**
 * Verdict of a filter on an event. All fields are 0 or null when the filter is called.
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
   * Payload to store with the event, or null. It belongs to the filter and must stay unchanged until the filter is
   * called again.
   */
  const uint8_t *payload;
  /**
   * Size of the payload: 0 to 1 MiB.
   */
  size_t payload_bytes;
  /**
   * Where the filter has no verdict: why, or null. It belongs to the filter, as the payload does.
   */
  const char *failure;
} SheafFilterVerdict;

/**
 * Function table of a filter library. It must stay unchanged while the library is loaded.
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

/**
 * An event with what the filter said of it. What it points to is valid until that which gave it is used again.
 */
typedef struct SheafStoredEvent {
  /**
   * The event.
   */
  struct SheafEvent event;
  /**
   * Bit i: the i-th tag of the run; SHEAF_TAG_QUARANTINED: the filter gave no verdict.
   */
  uint64_t tags;
  /**
   * Payload of the filter's verdict.
   */
  const uint8_t *payload;
  /**
   * Size of this payload; may be 0.
   */
  size_t payload_bytes;
} SheafStoredEvent;

/**
 * Selection among a run's accepted events. All zero: every event, as fast as the run provides them.
 */
typedef struct SheafTapWish {
  /**
   * Names of tags, of which an event must have one.
   */
  const char *const *tags;
  /**
   * Number of tags; 0: all events.
   */
  size_t tag_count;
  /**
   * One of so many of those events; 0 is taken as 1.
   */
  uint32_t prescale;
  /**
   * Always 0.
   */
  uint32_t reserved;
  /**
   * At most so many events a second; 0: as many as there are.
   */
  double rate_hz;
} SheafTapWish;

/**
 * Verdict of a step filter on a part of an event. All fields are 0 or null when the step filter is called.
 */
typedef struct SheafStepVerdict {
  /**
   * One of SHEAF_STEP_REJECT, SHEAF_STEP_ALL, SHEAF_STEP_ENOUGH and SHEAF_STEP_SOURCES. Nothing else is a verdict.
   */
  uint32_t decision;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * With SHEAF_STEP_SOURCES: numbers of sources, in any order. Those that are here or missing already are passed over. It
   * belongs to the step filter, and stays as it is until that is called again.
   */
  const uint32_t *sources;
  /**
   * Number of listed sources: 0 to 65,536.
   */
  size_t source_count;
  /**
   * Where the step filter has no verdict: why, or null. It belongs to the step filter, as the list does.
   */
  const char *failure;
} SheafStepVerdict;

/**
 * Function table of a library with a step filter: like that of a filter, with another verdict.
 */
typedef struct SheafStepTable {
  /**
   * The version of the interface that the library was made with: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * The size of this struct as the library knows it.
   */
  uint32_t table_bytes;
  /**
   * Makes a step filter for a run. Null: that is not possible, and the setup's `message` says why; the run does not start.
   */
  void *(*create)(const struct SheafFilterSetup *setup);
  /**
   * Judges the part of an event that is here. 0: the verdict is filled in. Anything else: there is none, and the verdict's
   * `failure` says why; the rest of the event is asked for.
   */
  int32_t (*judge)(void *step_filter, const struct SheafEvent *part, struct SheafStepVerdict *verdict);
  /**
   * Unmakes a step filter, which is not called again; may be null.
   */
  void (*destroy)(void *step_filter);
} SheafStepTable;

/**
 * A fragment that a builder unit has asked for, before it leaves the readout unit. It and all it points to belong to the
 * caller, and are valid during the call.
 */
typedef struct SheafRawFragment {
  /**
   * The event's number in the run.
   */
  uint64_t event;
  /**
   * The source's own time of the event; 0 where it has none.
   */
  uint64_t time_ns;
  /**
   * The source's number.
   */
  uint32_t source;
  /**
   * Always 0.
   */
  uint32_t reserved;
  /**
   * The payload as the source sent it. Never null.
   */
  const uint8_t *data;
  /**
   * Size of the payload; may be 0.
   */
  size_t bytes;
} SheafRawFragment;

/**
 * Result of a preprocessor for a fragment.
 */
typedef struct SheafProcessed {
  /**
   * Where the new payload is to be written. It belongs to the caller, and what is there before means nothing.
   */
  uint8_t *data;
  /**
   * Size of that buffer in bytes: at least that of the fragment; `preprocessing.extra_bytes` adds to it.
   */
  size_t room;
  /**
   * Size of the new payload: 0 to `room`. 0 when the preprocessor is called.
   */
  size_t bytes;
  /**
   * 1: the fragment leaves as it is, whatever was written; 0: the new payload leaves in its place. 0 when the preprocessor
   * is called.
   */
  uint32_t keep;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * Where the fragment cannot be processed: why, or null. It belongs to the preprocessor, and stays as it is until that is
   * called again.
   */
  const char *failure;
} SheafProcessed;

/**
 * Function table of a library with a preprocessor: like that of a filter, for fragments in place of events.
 */
typedef struct SheafPreprocessorTable {
  /**
   * The version of the interface that the library was made with: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * The size of this struct as the library knows it.
   */
  uint32_t table_bytes;
  /**
   * Makes a preprocessor for a run. Null: that is not possible, and the setup's `message` says why; the run does not start.
   */
  void *(*create)(const struct SheafFilterSetup *setup);
  /**
   * Processes a fragment. 0: what it made of it is filled in. Anything else: it failed, `failure` says why, and the fragment
   * leaves as the source sent it. The same fragment may come again, where a builder unit asks again: the result should
   * depend on nothing else.
   */
  int32_t (*process)(void *preprocessor,
                     const struct SheafRawFragment *fragment,
                     struct SheafProcessed *processed);
  /**
   * Unmakes a preprocessor, which is not called again; may be null.
   */
  void (*destroy)(void *preprocessor);
} SheafPreprocessorTable;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Joins the run at `address` (the socket of a door, the run's directory where it has one door, or HOST:PORT where the run lets
 * processors of other hosts in without certificates; where it has a key, see sheaf_processor_join_with_key), makes a filter of `table`
 * with `parameters` (null: `filter.parameters` of the run), and judges events until the run is over or sheaf_processor_stop is called. Gives the number
 * of events that were judged; -1: it could not join, or the run went away, and `message` (with room for `message_bytes`, or
 * null) says why. The calling thread is the one that judges.
 *
 * # Safety
 * `address` and `parameters` are null or texts with a NUL, `table` is null or a table as SheafFilterTable says, and at `message`
 * so many bytes may be written, or it is null.
 */
int64_t sheaf_processor_join(const char *address,
                             const struct SheafFilterTable *table,
                             const char *parameters,
                             char *message,
                             size_t message_bytes);

/**
 * Joins as sheaf_processor_join does, at HOST:PORT of a run that has a key: `key_file` is a copy of its transport.key_file, which
 * nobody else may read. Null: the run has no key.
 *
 * # Safety
 * As `sheaf_processor_join`; `key_file` is null or a text with a NUL.
 */
int64_t sheaf_processor_join_with_key(const char *address,
                                      const char *key_file,
                                      const struct SheafFilterTable *table,
                                      const char *parameters,
                                      char *message,
                                      size_t message_bytes);

/**
 * Makes sheaf_processor_join return when the events that it has are judged, now and from now on. It may be called by a signal handler.
 */
void sheaf_processor_stop(void);

/**
 * Opens the event file or run directory at `path`. Null: that is not possible, and `message` (with room for
 * `message_bytes`, or null) says why. The reader is the caller's, who closes it with sheaf_reader_close.
 *
 * # Safety
 * `path` is null or a text with a NUL; at `message` so many bytes may be written, or it is null.
 */
struct SheafReader *sheaf_reader_open(const char *path, char *message, size_t message_bytes);

/**
 * Reads the next event. 1: it is in `event`. 0: there are no more. -1: something is damaged or cannot be read,
 * sheaf_reader_message says what, and the next call goes on behind it.
 *
 * # Safety
 * `reader` is null or of sheaf_reader_open and not closed; an event may be written at `event`, or it is null.
 */
int32_t sheaf_reader_next(struct SheafReader *reader,
                          struct SheafStoredEvent *event);

/**
 * The name of the tag with this bit, from 0; null where it has none. It is the reader's.
 *
 * # Safety
 * `reader` is null or of sheaf_reader_open and not closed.
 */
const char *sheaf_reader_tag(const struct SheafReader *reader, uint32_t bit);

/**
 * Describes the error of the last sheaf_reader_next that returned -1. The text belongs to the reader and is valid
 * until the next call.
 *
 * # Safety
 * `reader` is null or of sheaf_reader_open and not closed.
 */
const char *sheaf_reader_message(const struct SheafReader *reader);

/**
 * Closes a reader. What it gave is gone with it. Null is nothing to close.
 *
 * # Safety
 * `reader` is null or of sheaf_reader_open, and not used again.
 */
void sheaf_reader_close(struct SheafReader *reader);

/**
 * Opens the fragment stream at `path`. Null: that is not possible, and `message` (with room for `message_bytes`, or null) says
 * why. The stream is the caller's, who closes it with sheaf_stream_close.
 *
 * # Safety
 * `path` is null or a text with a NUL; at `message` so many bytes may be written, or it is null.
 */
struct SheafStream *sheaf_stream_open(const char *path,
                                      char *message,
                                      size_t message_bytes);

/**
 * Reads the next fragment. 1: it is in `fragment`, the number of its event in `event`; its payload is valid until the stream is
 * used again. 0: there are no more. -1: something is damaged or cannot be read, sheaf_stream_message says what, and the next
 * call goes on behind it.
 *
 * # Safety
 * `stream` is null or of sheaf_stream_open and not closed; a number may be written at `event` and a fragment at `fragment`, or
 * they are null.
 */
int32_t sheaf_stream_next(struct SheafStream *stream,
                          uint64_t *event,
                          struct SheafFragment *fragment);

/**
 * Describes the error of the last sheaf_stream_next that returned -1. The text belongs to the stream and is valid
 * until the next call.
 *
 * # Safety
 * `stream` is null or of sheaf_stream_open and not closed.
 */
const char *sheaf_stream_message(const struct SheafStream *stream);

/**
 * Closes a stream. What it gave is gone with it. Null is nothing to close.
 *
 * # Safety
 * `stream` is null or of sheaf_stream_open, and not used again.
 */
void sheaf_stream_close(struct SheafStream *stream);

/**
 * Begins to look on at `target`: a run's directory, the socket of a builder's door in it, or `host:port`. `wish` says what to
 * get (null: everything), `name` tells the operator who looks on (null: nobody in particular). A run is never held back by who
 * looks on; what cannot be sent in time is left out. Null: that is not possible, and `message` (with room for `message_bytes`,
 * or null) says why. The tap is the caller's, who closes it with sheaf_tap_close.
 *
 * # Safety
 * Texts are null or end with a NUL, `wish` is null or as SheafTapWish says, and at `message` so many bytes may be written, or it
 * is null.
 */
struct SheafTap *sheaf_tap_open(const char *target,
                                const struct SheafTapWish *wish,
                                const char *name,
                                char *message,
                                size_t message_bytes);

/**
 * Joins as sheaf_tap_open does, at HOST:PORT of a run that has a key: `key_file` is a copy of its transport.key_file, which nobody
 * else may read. Null: the run has no key.
 *
 * # Safety
 * As `sheaf_tap_open`; `key_file` is null or a text with a NUL.
 */
struct SheafTap *sheaf_tap_open_with_key(const char *target,
                                         const char *key_file,
                                         const struct SheafTapWish *wish,
                                         const char *name,
                                         char *message,
                                         size_t message_bytes);

/**
 * Waits for the next event, up to `timeout_ms`. 1: it is in `event`. 0: the run has ended. 2: there was none in this time. -1:
 * the run was lost, and sheaf_tap_message says how.
 *
 * # Safety
 * `tap` is null or of sheaf_tap_open and not closed; an event may be written at `event`, or it is null.
 */
int32_t sheaf_tap_next(struct SheafTap *tap,
                       uint32_t timeout_ms,
                       struct SheafStoredEvent *event);

/**
 * The name of the tag with this bit, from 0; null where it has none. It is the tap's.
 *
 * # Safety
 * `tap` is null or of sheaf_tap_open and not closed.
 */
const char *sheaf_tap_tag(const struct SheafTap *tap, uint32_t bit);

/**
 * Describes the error of the last sheaf_tap_next that returned -1. The text belongs to the tap and is valid until the
 * next call.
 *
 * # Safety
 * `tap` is null or of sheaf_tap_open and not closed.
 */
const char *sheaf_tap_message(const struct SheafTap *tap);

/**
 * Stops looking on. What the tap gave is gone with it. Null is nothing to close.
 *
 * # Safety
 * `tap` is null or of sheaf_tap_open, and not used again.
 */
void sheaf_tap_close(struct SheafTap *tap);

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

/** As sheaf_filter, for a step filter, which judges the first steps of events; `building.symbol` says which is meant. */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafStepTable *sheaf_step_filter(void);

/** As sheaf_filter, for a preprocessor, which processes fragments in a readout unit; `preprocessing.symbol` says which. */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafPreprocessorTable *sheaf_preprocessor(void);

#endif /* SHEAF_H */
