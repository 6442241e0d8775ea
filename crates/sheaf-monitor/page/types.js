/**
 * Types of what the server sends. The module has no code; other modules import the types in comments.
 *
 * @typedef {"starting" | "running" | "finishing" | "closing" | "closed" | "none"} Phase
 * @typedef {"info" | "warning" | "error"} Severity
 * @typedef {"readout" | "builder" | "manager" | "output"} Role
 *
 * @typedef {object} Verdict The result of a run that has ended.
 * @property {boolean} good
 * @property {string[]} lines
 *
 * @typedef {object} Run
 * @property {number} number
 * @property {Phase} phase
 * @property {number} began_ms Unix time.
 * @property {number} seconds Time of the run.
 * @property {string} directory
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
 * @typedef {object} Figure
 * @property {string} name
 * @property {string} text
 * @property {number} value
 *
 * @typedef {object} Node
 * @property {string} name
 * @property {Role} role
 * @property {boolean} up
 * @property {number} age_ms
 * @property {number} restarts
 * @property {Record<string, Fill>} fill
 * @property {Figure[]} figures
 *
 * @typedef {object} Source A source in trouble.
 * @property {number} source
 * @property {string} name
 * @property {string} node
 * @property {number | null} last_seen_seconds
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
 * @property {string | null} help
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
 * @property {number} age_ms Age of the oldest report in the state.
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
