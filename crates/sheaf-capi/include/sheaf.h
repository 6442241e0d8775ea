/*
 * Sheaf for programs in C, and the interface of libraries with filters, preprocessors, decoders, sources or triggers.
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

/** The tag assigned by Sheaf itself: there is no verdict, and the event is stored unfiltered. */
#define SHEAF_TAG_QUARANTINED (UINT64_C(1) << 63)

/**
 * The version of the interface between Sheaf and filters. It changes when an older filter would misread something, or when a newer one
 * could write beyond a struct of an older Sheaf.
 */
#define SHEAF_FILTER_ABI 3

/**
 * The event is rejected; readout units drop its remaining fragments.
 */
#define SHEAF_STEP_REJECT 0

/**
 * All remaining sources are requested; then the filter judges the event.
 */
#define SHEAF_STEP_ALL 1

/**
 * No more sources are needed: the filter judges the event.
 */
#define SHEAF_STEP_ENOUGH 2

/**
 * The sources in the verdict's list are requested; then the step filter is called again. Invalid with `building.windows`.
 */
#define SHEAF_STEP_SOURCES 3

/**
 * The hits of all remaining sources in the windows of the verdict's list are requested; then the filter judges the event. Valid only with
 * `building.windows`.
 */
#define SHEAF_STEP_WINDOWS 4

/**
 * Maximum number of windows in a verdict of a step filter.
 */
#define SHEAF_STEP_MAX_WINDOWS 64

/**
 * There is nothing more now: the library is polled again after `wait_ns`.
 */
#define SHEAF_POLL_WAIT 0

/**
 * There is more: the library is polled again at once.
 */
#define SHEAF_POLL_MORE 1

/**
 * All sources have ended: the library is not polled again.
 */
#define SHEAF_POLL_END 2

/**
 * Channel of a hit that is no hit: it tells that the source's time has come to its `time`.
 */
#define SHEAF_TIME_MARKER UINT32_MAX

/**
 * Channel of a hit that is no hit: a pulse of the reference came when the source's clock read its `time`.
 */
#define SHEAF_TIME_PULSE (UINT32_MAX - 1)

/**
 * Channel of a hit that is no hit: the source's counter restarts at 0 after it read `time`. Hits before it precede it in the list.
 */
#define SHEAF_TIME_RESET (UINT32_MAX - 2)

/**
 * Channel of a hit that is no hit: a pulse of the reference that restarts the counter, which read `time` before.
 */
#define SHEAF_TIME_PULSE_RESET (UINT32_MAX - 3)

/**
 * Reads the events of an event file or of a run directory.
 */
typedef struct SheafReader SheafReader;

/**
 * Feeds sources of a readout unit.
 */
typedef struct SheafSource SheafSource;

/**
 * Reads the fragments of one source.
 */
typedef struct SheafStream SheafStream;

/**
 * Receives a sample of a run's accepted events.
 */
typedef struct SheafTap SheafTap;

/**
 * Setup of a filter, a step filter or a preprocessor, passed when it is created. The structure and all that it points
 * to are valid during the call.
 */
typedef struct SheafFilterSetup {
  /**
   * Interface version of the caller.
   */
  uint32_t abi;
  /**
   * The number of the run.
   */
  uint32_t run;
  /**
   * `filter.parameters` of the configuration (of a step filter `building.parameters`, of a preprocessor
   * `preprocessing.parameters`), unchanged; empty if there are none.
   */
  const char *parameters;
  /**
   * `filter.tags` of the configuration: names of tags, the first is bit 0. Empty for a preprocessor.
   */
  const char *const *tags;
  /**
   * Number of tags: 0 to 63.
   */
  size_t tag_count;
  /**
   * Buffer for the reason of a failure, NUL-terminated.
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
   * 1 if the readout unit's preprocessor produced the payload, 0 if it is as sent by the source.
   */
  uint32_t processed;
  /**
   * The source's own time of the event; 0 if it has none.
   */
  uint64_t time_ns;
  /**
   * The payload, in the memory in which it was received. Never null.
   */
  const uint8_t *data;
  /**
   * Size of the payload; may be 0.
   */
  size_t bytes;
  /**
   * If `disagrees` is 1: the check value of the fragment minus that of its event, not 0. If only `renumbered` is 1: number of
   * events by which the fragment was moved. Otherwise 0. Numbers beyond 2,097,151 of either sign are given as that.
   */
  int32_t difference;
  /**
   * 1 if the check value of the fragment disagrees with that of its event: it may belong to another event. 0 if it agrees or was
   * not compared.
   */
  uint8_t disagrees;
  /**
   * 1 if the readout unit has changed the event number that the source gave, otherwise 0.
   */
  uint8_t renumbered;
  /**
   * Always 0.
   */
  uint16_t reserved;
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
   * Reason: the code of a missing reason in docs/reference/protocol.md.
   */
  uint32_t reason;
} SheafMissing;

/**
 * A built event. It and all its pointers belong to the caller, and are valid during the call.
 */
typedef struct SheafEvent {
  /**
   * The event's number in the run.
   */
  uint64_t id;
  /**
   * Time of the trigger.
   */
  uint64_t time_ns;
  /**
   * Trigger type, in the experiment's own numbering.
   */
  uint32_t trigger_type;
  /**
   * Number of the attempt to build it, from 1.
   */
  uint32_t attempt;
  /**
   * 1 if a required source is missing, otherwise 0.
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
   * 1: store the event; 0: reject it. Other values are invalid.
   */
  uint32_t accepted;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * Bit i: the i-th tag of the setup. A bit without a tag is invalid.
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
   * Reason of a failure, or null. It belongs to the filter, like the payload.
   */
  const char *failure;
} SheafFilterVerdict;

/**
 * Function table of a filter library. It must stay unchanged while the library is loaded.
 *
 * Several filters may be created from one table. Each is called by one thread at a time; different filters may be
 * called concurrently.
 */
typedef struct SheafFilterTable {
  /**
   * Interface version of the library: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * Size of this struct in the library.
   */
  uint32_t table_bytes;
  /**
   * Creates a filter for a run. On failure, returns null and writes the reason to the setup's `message`; the run
   * does not start.
   */
  void *(*create)(const struct SheafFilterSetup *setup);
  /**
   * Judges an event. Returns 0 with the verdict filled in. Any other value is a failure, with the reason in the
   * verdict's `failure`; the event is stored unfiltered, tagged `quarantined`.
   */
  int32_t (*judge)(void *filter, const struct SheafEvent *event, struct SheafFilterVerdict *verdict);
  /**
   * Destroys a filter, which is not called again; may be null.
   */
  void (*destroy)(void *filter);
} SheafFilterTable;

/**
 * An event with its verdict. Its pointers are valid until the reader or tap that returned it is used again.
 */
typedef struct SheafStoredEvent {
  /**
   * The event.
   */
  struct SheafEvent event;
  /**
   * Bit i: the i-th tag of the run; SHEAF_TAG_QUARANTINED: there is no verdict.
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
 * Options of a program that feeds sources. All zero: the defaults.
 */
typedef struct SheafSourceOptions {
  /**
   * Name of the program for the operator; null: the name by which a run has started it, or its process id.
   */
  const char *name;
  /**
   * Copy of the transport.key_file of the run, readable only by the user, for connections over the network; null: that of the
   * configuration file, if this is the target, else none.
   */
  const char *key_file;
  /**
   * Time for which the readout unit may be absent, at first and after its connection has ended, in milliseconds; 0: 10,000.
   */
  uint32_t patience_ms;
  /**
   * 1: fragments carry no checksum of their payload.
   */
  uint8_t no_checksum;
  /**
   * 1: fragments are not kept until they are accepted; those that are under way when a connection ends are lost.
   */
  uint8_t no_keep;
  /**
   * 1: sheaf_source_record is called after the end of the run. The run ends only when the connection is closed, or ten seconds later.
   */
  uint8_t late_records;
  /**
   * Always 0.
   */
  uint8_t reserved;
  /**
   * Certificate of this program (PEM), for one of the source.feed.guest_names of the run, for connections over the network to a run
   * with TLS. Set the three files, or none; null: those of the configuration file, if this is the target, else none.
   */
  const char *tls_certificate;
  /**
   * Private key of the certificate (PEM).
   */
  const char *tls_key;
  /**
   * Certificates of the authorities that sign those of the nodes (PEM).
   */
  const char *tls_authority;
} SheafSourceOptions;

/**
 * A fragment to send.
 */
typedef struct SheafSentFragment {
  /**
   * Event number.
   */
  uint64_t event;
  /**
   * Time by the source's own clock in nanoseconds; 0: it has none.
   */
  uint64_t time_ns;
  /**
   * Payload.
   */
  const void *data;
  /**
   * Size of the payload.
   */
  size_t bytes;
} SheafSentFragment;

/**
 * Selection among a run's accepted events. All zero: every event, as fast as the run provides them.
 */
typedef struct SheafTapSelection {
  /**
   * Names of tags; an event must have at least one of them.
   */
  const char *const *tags;
  /**
   * Number of tags; 0: all events.
   */
  size_t tag_count;
  /**
   * Prescale N: one in N of those events; 0 means 1.
   */
  uint32_t prescale;
  /**
   * Always 0.
   */
  uint32_t reserved;
  /**
   * Maximum number of events per second; 0: no limit.
   */
  double rate_hz;
} SheafTapSelection;

/**
 * Window of time, in picoseconds since time 0 of the run, like the times of hits.
 */
typedef struct SheafWindow {
  /**
   * First moment.
   */
  uint64_t from_ps;
  /**
   * End, exclusive: greater than `from_ps`.
   */
  uint64_t until_ps;
} SheafWindow;

/**
 * Verdict of a step filter on a part of an event. All fields are 0 or null when the step filter is called.
 */
typedef struct SheafStepVerdict {
  /**
   * One of SHEAF_STEP_REJECT, SHEAF_STEP_ALL, SHEAF_STEP_ENOUGH, SHEAF_STEP_SOURCES and SHEAF_STEP_WINDOWS. Other values are
   * invalid.
   */
  uint32_t decision;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * With SHEAF_STEP_SOURCES: numbers of sources, in any order. Sources that are already present or missing are
   * ignored. The list belongs to the step filter and must stay unchanged until that is called again.
   */
  const uint32_t *sources;
  /**
   * Number of listed sources: 0 to 65,536.
   */
  size_t source_count;
  /**
   * Reason of a failure, or null. It belongs to the step filter, like the list.
   */
  const char *failure;
  /**
   * With SHEAF_STEP_WINDOWS: windows, in any order. They may overlap, begin before the slice and end after it. A hit in several of
   * them is sent once. The list belongs to the step filter, like that of sources.
   */
  const struct SheafWindow *windows;
  /**
   * Number of listed windows: 1 to SHEAF_STEP_MAX_WINDOWS.
   */
  size_t window_count;
} SheafStepVerdict;

/**
 * Function table of a library with a step filter: like that of a filter, with another verdict.
 */
typedef struct SheafStepTable {
  /**
   * Interface version of the library: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * Size of this struct in the library.
   */
  uint32_t table_bytes;
  /**
   * Creates a step filter for a run. On failure, returns null and writes the reason to the setup's `message`; the
   * run does not start.
   */
  void *(*create)(const struct SheafFilterSetup *setup);
  /**
   * Judges the part of an event that is present. Returns 0 with the verdict filled in. Any other value is a failure,
   * with the reason in the verdict's `failure`; the rest of the event is requested.
   */
  int32_t (*judge)(void *step_filter, const struct SheafEvent *part, struct SheafStepVerdict *verdict);
  /**
   * Destroys a step filter, which is not called again; may be null.
   */
  void (*destroy)(void *step_filter);
} SheafStepTable;

/**
 * A requested fragment, before it leaves the readout unit. It and all its pointers belong to the caller, and are valid
 * during the call.
 */
typedef struct SheafRawFragment {
  /**
   * The event's number in the run.
   */
  uint64_t event;
  /**
   * The source's own time of the event; 0 if it has none.
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
   * Buffer for the new payload. It belongs to the caller; its initial contents are undefined.
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
   * 1: the fragment is sent unchanged, whatever was written; 0: the new payload is sent in its place. 0 when the
   * preprocessor is called.
   */
  uint32_t keep;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * Reason of a failure, or null. It belongs to the preprocessor and must stay unchanged until that is called again.
   */
  const char *failure;
} SheafProcessed;

/**
 * Function table of a library with a preprocessor: like that of a filter, for fragments in place of events.
 */
typedef struct SheafPreprocessorTable {
  /**
   * Interface version of the library: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * Size of this struct in the library.
   */
  uint32_t table_bytes;
  /**
   * Creates a preprocessor for a run. On failure, returns null and writes the reason to the setup's `message`; the
   * run does not start.
   */
  void *(*create)(const struct SheafFilterSetup *setup);
  /**
   * Processes a fragment. Returns 0 with the result filled in. Any other value is a failure, with the reason in
   * `failure`; the fragment is sent unprocessed. The same fragment may be processed again, so the result should
   * depend on nothing else.
   */
  int32_t (*process)(void *preprocessor,
                     const struct SheafRawFragment *fragment,
                     struct SheafProcessed *processed);
  /**
   * Destroys a preprocessor, which is not called again; may be null.
   */
  void (*destroy)(void *preprocessor);
} SheafPreprocessorTable;

/**
 * A hit that a decoder has found, 16 bytes.
 */
typedef struct SheafHit {
  /**
   * Reading of the source's clock in ticks of `source.timed.tick`. With `source.timed.times = "fragment"`: ticks since the time of
   * the fragment.
   */
  uint64_t time;
  /**
   * Channel. No hit, but a reading of the clock: `SHEAF_TIME_MARKER`, `SHEAF_TIME_PULSE`, `SHEAF_TIME_RESET`,
   * `SHEAF_TIME_PULSE_RESET`.
   */
  uint32_t channel;
  /**
   * Measured value.
   */
  uint16_t value;
  /**
   * Second measured value.
   */
  uint16_t extra;
} SheafHit;

/**
 * Result of a decoder for a fragment.
 */
typedef struct SheafDecoded {
  /**
   * Buffer for the hits, in any order of time. It belongs to the caller; its initial contents are undefined.
   */
  struct SheafHit *hits;
  /**
   * Number of hits that it has room for: `source.decoder.max_hits`.
   */
  size_t room;
  /**
   * Number of hits in it: 0 to `room`. 0 when the decoder is called.
   */
  size_t count;
  /**
   * Number of records that are neither hits nor readings of the clock. 0 when the decoder is called.
   */
  uint64_t skipped;
  /**
   * Reason of a failure, or null. It belongs to the decoder and must stay unchanged until that is called again.
   */
  const char *failure;
} SheafDecoded;

/**
 * Function table of a library with a decoder: like that of a filter, for fragments that hold hits in place of events.
 */
typedef struct SheafDecoderTable {
  /**
   * Interface version of the library: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * Size of this struct in the library.
   */
  uint32_t table_bytes;
  /**
   * Creates a decoder for a source of a run. On failure, returns null and writes the reason to the setup's `message`; the run
   * does not start. The setup has no tags.
   */
  void *(*create)(const struct SheafFilterSetup *setup);
  /**
   * Decodes a fragment, or a packet: its time and event are then 0. Returns 0 with the result filled in. Any other value is a
   * failure, with the reason in `failure`; the fragment is counted as unreadable. Fragments of a source come in the order in
   * which it sent them.
   */
  int32_t (*decode)(void *decoder, const struct SheafRawFragment *fragment, struct SheafDecoded *decoded);
  /**
   * Destroys a decoder, which is not called again; may be null.
   */
  void (*destroy)(void *decoder);
} SheafDecoderTable;

/**
 * Setup of a library of sources, passed when it is opened. The structure and all that it points to are valid during the call.
 */
typedef struct SheafSourceSetup {
  /**
   * Interface version of the caller.
   */
  uint32_t abi;
  /**
   * The number of the run.
   */
  uint32_t run;
  /**
   * `source.library.parameters` of the configuration, unchanged; empty if there are none.
   */
  const char *parameters;
  /**
   * Numbers of the sources that the readout unit reads, at least one.
   */
  const uint32_t *sources;
  /**
   * Number of sources.
   */
  size_t source_count;
  /**
   * Size of the largest fragment that is taken.
   */
  uint64_t max_fragment_bytes;
  /**
   * Buffer for the reason of a failure, NUL-terminated.
   */
  char *message;
  /**
   * Size of that buffer in bytes.
   */
  size_t message_bytes;
} SheafSourceSetup;

/**
 * A fragment that a library has read.
 */
typedef struct SheafPolledFragment {
  /**
   * The event's number.
   */
  uint64_t event;
  /**
   * The source's own time of the event; 0 if it has none.
   */
  uint64_t time_ns;
  /**
   * The source's number: one of the setup.
   */
  uint32_t source;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * The payload. It belongs to the library and must stay unchanged until that is called again. Null only if `bytes` is 0.
   */
  const uint8_t *data;
  /**
   * Size of the payload; may be 0.
   */
  size_t bytes;
} SheafPolledFragment;

/**
 * Fragments of one poll.
 */
typedef struct SheafPollBatch {
  /**
   * List to be filled from its beginning. It belongs to the caller.
   */
  struct SheafPolledFragment *fragments;
  /**
   * Number of fragments that the list can have.
   */
  size_t room;
  /**
   * Number of fragments in it: 0 to `room`. 0 when the library is polled.
   */
  size_t count;
  /**
   * One of SHEAF_POLL_WAIT, SHEAF_POLL_MORE and SHEAF_POLL_END. SHEAF_POLL_WAIT when the library is polled.
   */
  uint32_t then;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * With SHEAF_POLL_WAIT: time until the next poll; 0: 100 microseconds. At most a second. 0 when the library is polled.
   */
  uint64_t wait_ns;
  /**
   * Reason of a failure, or null. It belongs to the library and must stay unchanged until that is called again.
   */
  const char *failure;
} SheafPollBatch;

/**
 * Function table of a library of sources. It must stay unchanged while the library is loaded.
 *
 * Each readout unit opens the library once, for all its sources. One thread at a time calls it: that of the readout unit, or
 * that of a process of its own (`source.library.isolated`). No function may block for long: the readout unit does nothing else
 * meanwhile.
 */
typedef struct SheafSourceTable {
  /**
   * Interface version of the library: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * Size of this struct in the library.
   */
  uint32_t table_bytes;
  /**
   * Opens the sources for a run. On failure, returns null and writes the reason to the setup's `message`; the run does not
   * start.
   */
  void *(*open)(const struct SheafSourceSetup *setup);
  /**
   * Takes note that the run has started; may be null. The library is polled from now on.
   */
  void (*start)(void *sources);
  /**
   * Returns 0 with the batch filled in. Any other value is a failure, with the reason in `failure`; what is in the batch is
   * ignored, and the library is polled again after a pause. A library that waits for its hardware returns no fragments.
   */
  int32_t (*poll)(void *sources, struct SheafPollBatch *batch);
  /**
   * Takes note that the run has ended; may be null. The library is not polled again.
   */
  void (*stop)(void *sources);
  /**
   * Closes the sources, which are not used again; may be null.
   */
  void (*close)(void *sources);
} SheafSourceTable;

/**
 * Setup of a library of triggers, passed when it is opened. The structure and all that it points to are valid during the call.
 */
typedef struct SheafTriggerSetup {
  /**
   * Interface version of the caller.
   */
  uint32_t abi;
  /**
   * The number of the run.
   */
  uint32_t run;
  /**
   * `trigger.library.parameters` of the configuration, unchanged; empty if there are none.
   */
  const char *parameters;
  /**
   * Size of the largest payload that is taken; 0 if the run takes none.
   */
  uint64_t max_payload_bytes;
  /**
   * Buffer for the reason of a failure, NUL-terminated.
   */
  char *message;
  /**
   * Size of that buffer in bytes.
   */
  size_t message_bytes;
} SheafTriggerSetup;

/**
 * A trigger of a library.
 */
typedef struct SheafPolledTrigger {
  /**
   * The id, which is the number of the event: greater than those of all triggers before. Ids that are left out are counted.
   */
  uint64_t id;
  /**
   * The time of the trigger.
   */
  uint64_t time_ns;
  /**
   * The inputs that were set, or what else the device states.
   */
  uint64_t bits;
  /**
   * The type of the trigger.
   */
  uint16_t kind;
  /**
   * Leave them 0.
   */
  uint16_t reserved[3];
  /**
   * The payload. It belongs to the library and must stay unchanged until that is called again. Null only if `bytes` is 0.
   */
  const uint8_t *data;
  /**
   * Size of the payload; may be 0.
   */
  size_t bytes;
} SheafPolledTrigger;

/**
 * Triggers of one poll.
 */
typedef struct SheafTriggerBatch {
  /**
   * List to be filled from its beginning. It belongs to the caller.
   */
  struct SheafPolledTrigger *triggers;
  /**
   * Number of triggers that the list can have.
   */
  size_t room;
  /**
   * Number of triggers in it: 0 to `room`. 0 when the library is polled.
   */
  size_t count;
  /**
   * One of SHEAF_POLL_WAIT, SHEAF_POLL_MORE and SHEAF_POLL_END. SHEAF_POLL_WAIT when the library is polled.
   */
  uint32_t then;
  /**
   * Leave it 0.
   */
  uint32_t reserved;
  /**
   * Number of triggers that the device has held back since the last poll. They are counted as vetoes: of busy, if the run is busy or
   * was since then, otherwise of the device's own dead time. 0 when the library is polled.
   */
  uint64_t vetoed;
  /**
   * With SHEAF_POLL_WAIT: time until the next poll; 0: 100 microseconds. At most a second. 0 when the library is polled.
   */
  uint64_t wait_ns;
  /**
   * Reason of a failure, or null. It belongs to the library and must stay unchanged until that is called again.
   */
  const char *failure;
} SheafTriggerBatch;

/**
 * Function table of a library of triggers. It must stay unchanged while the library is loaded.
 *
 * The library is in a process of its own, one thread of which calls it. A function may block, but the library does not learn that the
 * run is busy meanwhile.
 */
typedef struct SheafTriggerTable {
  /**
   * Interface version of the library: `SHEAF_FILTER_ABI` of its header.
   */
  uint32_t abi;
  /**
   * Size of this struct in the library.
   */
  uint32_t table_bytes;
  /**
   * Opens the device for a run. On failure, returns null and writes the reason to the setup's `message`.
   */
  void *(*open)(const struct SheafTriggerSetup *setup);
  /**
   * Takes note that the run takes triggers, and of the id of the next one: that of the first event, or the one that follows all
   * triggers so far if the library was started again in a run. May be null. The library is polled from now on.
   */
  void (*start)(void *triggers, uint64_t next);
  /**
   * Returns 0 with the batch filled in. Any other value is a failure, with the reason in `failure`.
   */
  int32_t (*poll)(void *triggers, struct SheafTriggerBatch *batch);
  /**
   * Takes note that the run is busy for this reason, or, with null, that it is no longer; may be null. The text is valid during the
   * call. Triggers that happened before the device held back are still given, and become events. If the function is null, the
   * library is not polled while the run is busy.
   */
  void (*busy)(void *triggers, const char *reason);
  /**
   * Takes note that the run takes no more triggers; may be null. The library is not polled again.
   */
  void (*stop)(void *triggers);
  /**
   * Closes the device, which is not used again; may be null.
   */
  void (*close)(void *triggers);
} SheafTriggerTable;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Joins a run as a processor, creates a filter from `table` with `parameters` (null: `filter.parameters` of the run),
 * and judges events until the run ends or sheaf_processor_stop is called. `address` is the socket of a builder unit, a
 * run directory with one such socket, or HOST:PORT if the run accepts processors of other hosts without certificates
 * (for a run with a key, see sheaf_processor_join_with_key). Returns the number of judged events, or -1 if it could
 * not join or lost the run; the reason is then in `message` (a buffer of `message_bytes` bytes, or null). Events are
 * judged by the calling thread.
 *
 * # Safety
 * `address` and `parameters` are null or NUL-terminated texts, `table` is null or a valid SheafFilterTable, and
 * `message` is null or a buffer of `message_bytes` bytes.
 */
int64_t sheaf_processor_join(const char *address,
                             const struct SheafFilterTable *table,
                             const char *parameters,
                             char *message,
                             size_t message_bytes);

/**
 * Joins as sheaf_processor_join does, at HOST:PORT of a run that has a key: `key_file` is a copy of its
 * transport.key_file, readable only by the user. Null: the run has no key.
 *
 * # Safety
 * As `sheaf_processor_join`; `key_file` is null or a NUL-terminated text.
 */
int64_t sheaf_processor_join_with_key(const char *address,
                                      const char *key_file,
                                      const struct SheafFilterTable *table,
                                      const char *parameters,
                                      char *message,
                                      size_t message_bytes);

/**
 * Makes every current and later sheaf_processor_join return after its pending events are judged. May be called from a
 * signal handler.
 */
void sheaf_processor_stop(void);

/**
 * Opens the event file or run directory at `path`. On failure, returns null and writes the reason to `message` (a
 * buffer of `message_bytes` bytes, or null). The caller owns the reader and closes it with sheaf_reader_close.
 *
 * # Safety
 * `path` is null or a NUL-terminated text; `message` is null or a buffer of `message_bytes` bytes.
 */
struct SheafReader *sheaf_reader_open(const char *path,
                                      char *message,
                                      size_t message_bytes);

/**
 * Reads the next event. Returns 1 with the event in `event`, 0 at the end, and -1 if data are damaged or cannot be
 * read; sheaf_reader_message then has the reason, and the next call continues after the damage.
 *
 * # Safety
 * `reader` is null or from sheaf_reader_open and not closed; `event` is null or points to a writable event.
 */
int32_t sheaf_reader_next(struct SheafReader *reader,
                          struct SheafStoredEvent *event);

/**
 * Returns the name of the tag with this bit, from 0, or null if there is none. The text belongs to the reader.
 *
 * # Safety
 * `reader` is null or from sheaf_reader_open and not closed.
 */
const char *sheaf_reader_tag(const struct SheafReader *reader,
                             uint32_t bit);

/**
 * Describes the error of the last sheaf_reader_next that returned -1. The text belongs to the reader and is valid
 * until the next call.
 *
 * # Safety
 * `reader` is null or from sheaf_reader_open and not closed.
 */
const char *sheaf_reader_message(const struct SheafReader *reader);

/**
 * Closes a reader. All data obtained from it become invalid. Null is ignored.
 *
 * # Safety
 * `reader` is null or from sheaf_reader_open, and not used again.
 */
void sheaf_reader_close(struct SheafReader *reader);

/**
 * Connects to a readout unit to feed `source_count` sources of it. `target` is its socket (`runs/ru0.feed`), the
 * configuration file of the run, or HOST:PORT of its `source.feed.listen`. A program that has the configuration file and not the
 * socket, because it is on another host, connects over the network, with the key and the certificate of the configuration.
 * `options` may be null: the defaults. Waits for the run for the patience of the options.
 * A program that a run has started (`source.kind = "command"`) may pass null as `target`, null as `sources` and 0 as `source_count`:
 * they are then those of its environment, and sheaf_source_id tells the sources.
 * On failure, returns null and writes the reason to `message` (a buffer of `message_bytes` bytes, or null). The caller
 * owns the result and closes it with sheaf_source_close. One thread at a time may use it.
 *
 * Functions return 1 if they have done what was asked, 0 if the run has ended, and -1 if they failed;
 * sheaf_source_message then has the reason. Each call also takes what the readout unit has said.
 *
 * # Safety
 * `target` is null or a NUL-terminated text, `sources` is null or a list of `source_count` numbers, `options` is null or a
 * valid SheafSourceOptions, and `message` is null or a buffer of `message_bytes` bytes.
 */
struct SheafSource *sheaf_source_open(const char *target,
                                      const uint32_t *sources,
                                      size_t source_count,
                                      const struct SheafSourceOptions *options,
                                      char *message,
                                      size_t message_bytes);

/**
 * Writes the number of the source with this index to `id`. Returns 1, or 0 if there are not as many sources.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `id` is null or a number to be written.
 */
int32_t sheaf_source_id(const struct SheafSource *source, size_t index, uint32_t *id);

/**
 * Waits until the run starts, at most `timeout_ms` milliseconds. Returns 1 if it is in progress, 0 if it has ended, 2 if
 * it has not started in this time, and -1 on failure.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
int32_t sheaf_source_wait_for_start(struct SheafSource *source,
                                    uint32_t timeout_ms);

/**
 * Waits until the run has ended, at most `timeout_ms` milliseconds. Returns 1 if it has, 2 if it has not in this time, and -1
 * on failure. Records of the end of the run follow, if `late_records` was set.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
int32_t sheaf_source_wait_for_end(struct SheafSource *source,
                                  uint32_t timeout_ms);

/**
 * Declines the start of the run: it ends before it has started, and says `reason`.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `reason` is null or a NUL-terminated text.
 */
int32_t sheaf_source_decline(struct SheafSource *source, const char *reason);

/**
 * Sends a fragment of the source `id`. Waits while there is no room for it. The payload is copied.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `data` is null or has `bytes` bytes.
 */
int32_t sheaf_source_send(struct SheafSource *source,
                          uint32_t id,
                          uint64_t event,
                          uint64_t time_ns,
                          const void *data,
                          size_t bytes);

/**
 * Sends a run record of the source `id`, and waits until the run has it: its configuration (`kind` 1) or state at the end (2), or a
 * value of slow control (3). It is in every event file that is not closed yet. `time_ns` is in nanoseconds since 1970; 0: now.
 * `name` has at most 256 bytes, the content at most 1 MiB. Records are also taken before the run begins, and after its end if the
 * option `late_records` is set. A record that is sent again with the same time changes nothing.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `name` is a NUL-terminated text; `data` is null or has `bytes` bytes.
 */
int32_t sheaf_source_record(struct SheafSource *source,
                            uint32_t id,
                            uint8_t kind,
                            uint64_t time_ns,
                            const char *name,
                            const void *data,
                            size_t bytes);

/**
 * Sends a fragment as sheaf_source_send does, if there is room for it now; returns 2 if there is none.
 *
 * # Safety
 * As `sheaf_source_send`.
 */
int32_t sheaf_source_try_send(struct SheafSource *source,
                              uint32_t id,
                              uint64_t event,
                              uint64_t time_ns,
                              const void *data,
                              size_t bytes);

/**
 * Waits for news of the readout unit, at most `timeout_ms` milliseconds. A program that sends nothing for long need not call
 * this, but learns only by a call that the run has ended.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
int32_t sheaf_source_wait(struct SheafSource *source,
                          uint32_t timeout_ms);

/**
 * Writes the number of fragments of the source `id` that were sent in this run to `sent`, and of those that the run has
 * accepted, which are in its accounts, to `accepted`. Either may be null.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `sent` and `accepted` are null or point to writable numbers.
 */
int32_t sheaf_source_progress(struct SheafSource *source,
                              uint32_t id,
                              uint64_t *sent,
                              uint64_t *accepted);

/**
 * Writes the event number of the last fragment of the source `id` that the readout unit had when the connection began to
 * `event`. Returns 0 if it had none in this run. A program that was started again continues behind this event.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `event` is null or points to a writable number.
 */
int32_t sheaf_source_last_event(struct SheafSource *source,
                                uint32_t id,
                                uint64_t *event);

/**
 * Returns 1 if the source `id` has ended in this run, by this program or by an earlier one in its place, and 0 if not. A source that has
 * ended takes no more fragments.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
int32_t sheaf_source_has_ended(struct SheafSource *source,
                               uint32_t id);

/**
 * Returns the number of the run.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
uint32_t sheaf_source_run(const struct SheafSource *source);

/**
 * Ends the source `id`: it sends nothing more in this run. A run ends by itself when all of its sources have ended.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
int32_t sheaf_source_end(struct SheafSource *source,
                         uint32_t id);

/**
 * Waits until all fragments that were sent are accepted. Returns 0 if the run has ended before.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
int32_t sheaf_source_drain(struct SheafSource *source);

/**
 * Describes the error of the last function that returned -1. The text belongs to the source and is valid until the next
 * call.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
const char *sheaf_source_message(const struct SheafSource *source);

/**
 * Closes the connection. Sources that have not ended can be fed by another program. Fragments that were not received are
 * lost: call sheaf_source_drain before. Null is ignored.
 *
 * # Safety
 * `source` is null or from sheaf_source_open, and not used again.
 */
void sheaf_source_close(struct SheafSource *source);

/**
 * Reserves `bytes` for the payload of a fragment of the source `id`, and waits while there is no room. On success `*payload` is the
 * reserved memory, with undefined content and without alignment; the payload is written there, and sent by sheaf_source_commit.
 * On the same host this memory is shared with the run, and the library does not copy the payload. A program has one reservation at
 * a time; any other call but sheaf_source_commit gives it up, and `*payload` must not be used any longer.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `payload` is null or a pointer to be written.
 */
int32_t sheaf_source_reserve(struct SheafSource *source,
                             uint32_t id,
                             size_t bytes,
                             void **payload);

/**
 * Reserves room as sheaf_source_reserve, and returns 2 if there is none now.
 *
 * # Safety
 * As for sheaf_source_reserve.
 */
int32_t sheaf_source_try_reserve(struct SheafSource *source, uint32_t id, size_t bytes, void **payload);

/**
 * Sends a fragment whose payload is the first `bytes` of the reserved memory. If `more` is not 0, the fragment waits for the next
 * ones of the same source, which are then sent in one message: it leaves when the message is full, or with any other call.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed.
 */
int32_t sheaf_source_commit(struct SheafSource *source,
                            uint64_t event,
                            uint64_t time_ns,
                            size_t bytes,
                            int32_t more);

/**
 * Sends `count` fragments of the source `id` in their order, many in one message. Waits while there is no room. Payloads
 * are copied. If the run ends or the call fails, sheaf_source_progress has the number of those sent.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `fragments` is null or a list of `count` fragments, whose
 * `data` are null or have `bytes` bytes.
 */
int32_t sheaf_source_send_many(struct SheafSource *source,
                               uint32_t id,
                               const struct SheafSentFragment *fragments,
                               size_t count);

/**
 * Sends `count` fragments as sheaf_source_send_many does, from arrays: fragment i has the event number `events[i]`, the
 * time `times_ns[i]` (`times_ns` may be null: there are no times), and the bytes of `payload` from `offsets[i]` to
 * `offsets[i + 1]`.
 *
 * # Safety
 * `source` is null or from sheaf_source_open and not closed; `events` and `times_ns` are null or have `count` numbers,
 * `offsets` is null or has one more, and `payload` is null or has as many bytes as the last of `offsets` says.
 */
int32_t sheaf_source_send_arrays(struct SheafSource *source,
                                 uint32_t id,
                                 size_t count,
                                 const uint64_t *events,
                                 const uint64_t *times_ns,
                                 const void *payload,
                                 const uint64_t *offsets);

/**
 * Opens the fragment stream at `path`. On failure, returns null and writes the reason to `message` (a buffer of
 * `message_bytes` bytes, or null). The caller owns the stream and closes it with sheaf_stream_close.
 *
 * # Safety
 * `path` is null or a NUL-terminated text; `message` is null or a buffer of `message_bytes` bytes.
 */
struct SheafStream *sheaf_stream_open(const char *path,
                                      char *message,
                                      size_t message_bytes);

/**
 * Reads the next fragment. Returns 1 with the fragment in `fragment` and its event number in `event`; the payload is
 * valid until the stream is used again. Returns 0 at the end, and -1 if data are damaged or cannot be read;
 * sheaf_stream_message then has the reason, and the next call continues after the damage.
 *
 * # Safety
 * `stream` is null or from sheaf_stream_open and not closed; `event` and `fragment` are null or point to a writable
 * number and fragment.
 */
int32_t sheaf_stream_next(struct SheafStream *stream,
                          uint64_t *event,
                          struct SheafFragment *fragment);

/**
 * Describes the error of the last sheaf_stream_next that returned -1. The text belongs to the stream and is valid
 * until the next call.
 *
 * # Safety
 * `stream` is null or from sheaf_stream_open and not closed.
 */
const char *sheaf_stream_message(const struct SheafStream *stream);

/**
 * Closes a stream. All data obtained from it become invalid. Null is ignored.
 *
 * # Safety
 * `stream` is null or from sheaf_stream_open, and not used again.
 */
void sheaf_stream_close(struct SheafStream *stream);

/**
 * Joins the run at `target` as a consumer: a run directory, the socket of a builder unit in it, or `host:port`. `selection`
 * selects events (null: all), `name` identifies the consumer to the operator (may be null). A consumer never delays a
 * run; events that cannot be sent in time are left out. On failure, returns null and writes the reason to `message` (a
 * buffer of `message_bytes` bytes, or null). The caller owns the tap and closes it with sheaf_tap_close.
 *
 * # Safety
 * Texts are null or NUL-terminated, `selection` is null or a valid SheafTapSelection, and `message` is null or a buffer of
 * `message_bytes` bytes.
 */
struct SheafTap *sheaf_tap_open(const char *target,
                                const struct SheafTapSelection *selection,
                                const char *name,
                                char *message,
                                size_t message_bytes);

/**
 * Joins as sheaf_tap_open does, at HOST:PORT of a run that has a key: `key_file` is a copy of its transport.key_file,
 * readable only by the user. Null: the run has no key.
 *
 * # Safety
 * As `sheaf_tap_open`; `key_file` is null or a NUL-terminated text.
 */
struct SheafTap *sheaf_tap_open_with_key(const char *target,
                                         const char *key_file,
                                         const struct SheafTapSelection *selection,
                                         const char *name,
                                         char *message,
                                         size_t message_bytes);

/**
 * Waits up to `timeout_ms` for the next event. Returns 1 with the event in `event`, 0 when the run has ended, 2 if no
 * event arrived in this time, and -1 if the run was lost; sheaf_tap_message then has the reason.
 *
 * # Safety
 * `tap` is null or from sheaf_tap_open and not closed; `event` is null or points to a writable event.
 */
int32_t sheaf_tap_next(struct SheafTap *tap,
                       uint32_t timeout_ms,
                       struct SheafStoredEvent *event);

/**
 * Returns the name of the tag with this bit, from 0, or null if there is none. The text belongs to the tap.
 *
 * # Safety
 * `tap` is null or from sheaf_tap_open and not closed.
 */
const char *sheaf_tap_tag(const struct SheafTap *tap, uint32_t bit);

/**
 * Describes the error of the last sheaf_tap_next that returned -1. The text belongs to the tap and is valid until the
 * next call.
 *
 * # Safety
 * `tap` is null or from sheaf_tap_open and not closed.
 */
const char *sheaf_tap_message(const struct SheafTap *tap);

/**
 * Leaves the run and frees the tap. All data obtained from it become invalid. Null is ignored.
 *
 * # Safety
 * `tap` is null or from sheaf_tap_open, and not used again.
 */
void sheaf_tap_close(struct SheafTap *tap);

/**
 * Returns the version of this library, such as "0.1.0". The text is constant.
 */
const char *sheaf_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/**
 * Returns the table of a filter. A filter library defines this function; Sheaf calls it once for each filter that it creates. A
 * library with several filters defines several such functions with different names; `filter.symbol` of the configuration selects one.
 */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafFilterTable *sheaf_filter(void);

/** As sheaf_filter, for a step filter, which judges the first steps of events; `building.symbol` selects one. */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafStepTable *sheaf_step_filter(void);

/** As sheaf_filter, for a preprocessor, which processes fragments in a readout unit; `preprocessing.symbol` selects one. */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafPreprocessorTable *sheaf_preprocessor(void);

/** As sheaf_filter, for a decoder, which finds the hits in fragments; `source.decoder.symbol` selects one. */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafDecoderTable *sheaf_decoder(void);

/** As sheaf_filter, for sources, which a readout unit polls; `source.library.symbol` selects one. */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafSourceTable *sheaf_source(void);

/** As sheaf_filter, for triggers, which a process of the run polls; `trigger.library.symbol` selects one. */
#ifdef __cplusplus
extern "C"
#endif
SHEAF_EXPORT const SheafTriggerTable *sheaf_trigger(void);

#endif /* SHEAF_H */
