/**
 * Types of what the server sends. The module has no code; other modules import the types in comments.
 *
 * @typedef {"starting" | "running" | "finishing" | "closing" | "closed" | "none"} Phase
 * @typedef {"info" | "warning" | "error"} Severity
 * @typedef {"readout" | "builder" | "manager" | "output"} Role
 *
 * @typedef {object} Verdict The result of a run that has ended.
 * @property {boolean} good
 * @property {string[]} lines The summary, aligned for a font of fixed width.
 *
 * @typedef {object} Run
 * @property {number | null} number Null before the event manager has published.
 * @property {Phase} phase
 * @property {number | null} began_ms Unix time.
 * @property {number} seconds Live and dead time.
 * @property {string | null} directory Null if the run writes no files.
 * @property {string | null} waits_for
 * @property {number} sources Number of sources.
 * @property {Verdict | null} verdict
 *
 * @typedef {object} Triggers
 * @property {number} offered
 * @property {number} accepted
 * @property {number} vetoed
 *
 * @typedef {object} Drop
 * @property {string} reason
 * @property {number} count
 * @property {string} account
 *
 * @typedef {object} Events
 * @property {number} stored
 * @property {number} rejected
 * @property {number} dropped
 * @property {number} in_flight
 * @property {number} incomplete Stored or rejected without a required source.
 * @property {Drop[]} drops
 *
 * @typedef {object} Fragments
 * @property {number} received
 * @property {number} stored
 * @property {number} rejected
 * @property {number} dropped
 * @property {number} in_flight
 * @property {Drop[]} drops
 *
 * @typedef {object} Cause
 * @property {string} cause
 * @property {string} text
 * @property {string} remedy
 * @property {number} seconds
 * @property {number} vetoed
 * @property {{node: string, seconds: number}[]} culprits
 *
 * @typedef {object} DeadTime
 * @property {number} live_seconds
 * @property {number} dead_seconds
 * @property {{cause: string, culprit: string | null} | null} now Null while triggers are taken.
 * @property {Cause[]} causes
 *
 * @typedef {object} Fill
 * @property {number} value
 * @property {number} limit
 * @property {string} unit
 *
 * @typedef {object} Figure A number of a node.
 * @property {string} name
 * @property {string} text
 * @property {number} value
 *
 * @typedef {object} NodeFigures The answer about one node.
 * @property {string} name
 * @property {Figure[]} figures
 *
 * @typedef {object} Node
 * @property {string} name
 * @property {Role} role
 * @property {boolean} up Whether it has published and has not ended.
 * @property {number | null} age_ms Null if it has not published.
 * @property {number} restarts
 * @property {boolean} output_failing Whether its output does not work or has no room.
 * @property {Record<string, Fill>} fill By buffer: `buffer` for payload, `slots` for events.
 *
 * @typedef {object} Source A source in trouble.
 * @property {number} source
 * @property {string | null} name
 * @property {string | null} node Its readout unit.
 * @property {number | null} last_seen_seconds
 * @property {boolean} held_back Whether its readout unit has no room for its next fragment.
 * @property {{reason: string, events: number}[]} missing
 *
 * @typedef {object} Latency
 * @property {number[]} bounds_s Upper bounds of the bins.
 * @property {number[]} counts One more than bounds.
 * @property {number} sum_s
 *
 * @typedef {object} Alarm
 * @property {string} code
 * @property {Severity} severity
 * @property {string} text
 * @property {string | null} culprit
 * @property {string} remedy
 * @property {number} since_ms Unix time.
 *
 * @typedef {object} Message
 * @property {number} number
 * @property {number} time_ms Unix time.
 * @property {Severity} level
 * @property {string | null} node
 * @property {string} text
 *
 * @typedef {object} State
 * @property {number} api
 * @property {string} version
 * @property {number} time_ms Unix time at which the server made the state.
 * @property {number | null} age_ms Age of the oldest values of a node that has not ended.
 * @property {number} revision
 * @property {Run} run
 * @property {Triggers} triggers
 * @property {Events} events
 * @property {Fragments} fragments
 * @property {{triggers: number, fragments: number}} imbalance
 * @property {DeadTime} dead_time
 * @property {Node[]} nodes
 * @property {Source[]} sources
 * @property {Latency} latency
 * @property {Alarm[]} alarms
 * @property {Message[]} log
 *
 * @typedef {object} Column A column of the binary answers.
 * @property {string} id
 * @property {string} title
 * @property {string} unit
 * @property {string} panel
 */

export {};
