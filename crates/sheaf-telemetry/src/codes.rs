//! Code of every message of a run.
//!
//! A code is a name that stays the same in all releases, so that a message can be found, counted and looked up whatever its words are.
//! Alarms and faults of run control have the same names. The table is also in `docs/operating/troubleshooting.md`.

use crate::message::{Code, Severity};

/// Defines codes, and the list of all.
macro_rules! codes {
    ($($section:literal: $(#[doc = $title:literal] $name:ident = $severity:ident $text:literal $remedy:literal;)+)+) => {
        $($(
            #[doc = $title]
            pub static $name: Code = Code {
                name: $text,
                severity: Severity::$severity,
                title: $title.trim_ascii(),
                remedy: $remedy,
            };
        )+)+

        /// All codes in the order of the page, by what they are about.
        pub static ALL: &[(&str, &[&Code])] = &[$(($section, &[$(&$name),+])),+];
    };
}

codes! {
    "The run":
    /// A run of several begins.
    RUN_BEGINS = Info "run-begins" "";
    /// A run has ended: its result.
    RUN_ENDED = Info "run-ended" "";
    /// The run was asked to stop.
    RUN_STOPS = Info "run-stops" "";
    /// The run is paused or resumed.
    RUN_PAUSED = Info "run-paused" "";
    /// The run cannot be paused, because its data announce the triggers.
    PAUSE_REFUSED = Warning "pause-refused" "Stop it instead, and start another run.";
    /// A run cannot follow another one without a gap.
    NO_HANDOVER = Warning "no-handover" "The message has the reason. The present run goes on, or the next one begins anew, with a gap; nothing of either run is lost.";
    /// The claim of a run on its nodes could not be changed.
    CLAIM_NOT_NOTED = Warning "claim-not-noted" "The run goes on, and its nodes stay its own; `sheaf partitions` does not show its number. Look at the disk of the runs.";
    /// The third request to stop ended the process at once; its files are not closed.
    RUN_ABORTED = Error "run-aborted" "Run `sheaf verify` on the run. Press Ctrl-C only twice to drop the events in flight in good order.";
    /// The process of a run died without a result.
    RUN_DIED = Error "run-died" "Look at the end of the log of the run, and at the kernel's log: `SIGKILL` often means lack of memory.";
    /// A run ended without being asked to, or with losses.
    RUN_FAILED = Error "run-failed" "The log of the run has the reason; `sheaf runs show` shows what was lost.";
    /// A node or the command ended with an error.
    NODE_FAILED = Error "node-failed" "The message has the cause; troubleshooting lists the frequent ones.";
    /// A thread panicked: a bug in Sheaf.
    THREAD_PANICKED = Error "thread-panicked" "Keep the run directory and the log, and report the message.";
    /// A node that was started by hand says where it listens and whom it calls.
    NODE_BEGAN = Info "node-began" "";
    /// A node left the run on request, before its end.
    NODE_LEFT = Warning "node-left" "Start it again if the run should go on with it.";
    /// The run starts without some of its nodes.
    NODES_ABSENT = Warning "nodes-absent" "Start them: builder units and output nodes may join later. Raise `manager.start_timeout_ms` if they need longer.";
    /// The event manager has a standby that has everything it acts on.
    STANDBY_READY = Info "standby-ready" "";
    /// A standby has taken over from the event manager.
    TOOK_OVER = Warning "took-over" "Nothing is lost. Look why the other replica of the event manager ended or was silent. The run has no standby until it is back (`standby-ready`).";
    /// The event manager has stepped down as requested, and its standby has taken over.
    STEPPED_DOWN = Info "stepped-down" "";
    /// The event manager was to step down, and goes on.
    STEP_DOWN_REFUSED = Warning "step-down-refused" "The message has the reason. Request it again when the event manager has a standby (`standby-ready`), and its voters are there.";
    /// The run goes on without a standby of its event manager.
    RUN_UNPROTECTED = Warning "run-unprotected" "If the event manager dies now, the run ends. Look why its standby ended, or what slows it or its link. A standby that is started again joins (`standby-ready`).";
    /// The process of a replica of the event manager has ended, and the other one goes on.
    REPLICA_ENDED = Warning "replica-ended" "Look at its last messages, and at the kernel's log. The run has no standby until it is back (`standby-ready`).";
    /// An event manager that was started during the run becomes the standby of the active one.
    REPLICA_JOINS = Info "replica-joins" "";
    /// A replica of the event manager has no more part in the run.
    REPLICA_RETIRED = Warning "replica-retired" "The message has the reason. The other replica goes on. One that is started again joins as its standby.";
    /// A mirror has everything that its readout unit has.
    MIRROR_READY = Info "mirror-ready" "";
    /// A mirror acts for its readout unit.
    MIRROR_TOOK_OVER = Warning "mirror-took-over" "Nothing is lost. Look why the readout unit ended or was silent; it has no mirror until the end of the run.";
    /// A readout unit goes on without its mirror.
    UNIT_UNPROTECTED = Warning "unit-unprotected" "If the readout unit dies now, what it holds is lost. Look why its mirror ended, or what slows it or its link.";
    /// A readout unit whose mirror acts for it, or a mirror, has no more part in the run.
    UNIT_RETIRED = Warning "unit-retired" "The message has the reason. The other one of the two goes on.";
    /// The process of a node ended with an error, or died too often to be started again.
    PROCESS_ENDED = Error "process-ended" "Look at its last messages, and at the kernel's log.";
    /// The process of a node died, and is started again.
    PROCESS_RESTARTED = Warning "process-restarted" "If it happens again, look at its last messages, at its memory, and at its filter.";
    /// The process of a node did not end in time, and is killed.
    PROCESS_KILLED = Error "process-killed" "Find what it waited for: a hanging disk, filter or library.";
    /// An agent waits for runs, and says where.
    AGENT_BEGAN = Info "agent-began" "";
    /// A run begins or ceases to use the host of an agent.
    AGENT_SERVES = Info "agent-serves" "";
    /// An agent ends the nodes of a run that is gone, or with itself.
    AGENT_ENDS = Warning "agent-ends" "Look at the log of the run: its process has ended, or its host cannot be reached.";
    /// A run begins without the nodes of an agent that does not answer.
    AGENT_ABSENT = Warning "agent-absent" "Start `sheaf agent` on that host: its builder units and output nodes join the run.";
    /// The connection to an agent was lost, or its nodes are given up.
    AGENT_LOST = Warning "agent-lost" "Look whether its host and the network are there, and whether `sheaf agent` runs. The run goes on with the nodes of other hosts.";
    /// The connection to an agent is there again.
    AGENT_BACK = Info "agent-back" "";
    /// An agent that is back cannot start its nodes again.
    AGENT_REFUSES = Warning "agent-refuses" "Correct what the message names on that host. The run tries again.";
    /// The run waits for a host to close its files.
    AGENT_CLOSES = Info "agent-closes" "";
    /// A signal could not be sent to the process of a node.
    SIGNAL_FAILED = Warning "signal-failed" "End the process by hand if it remains.";
    /// A file or directory that is no longer needed could not be removed.
    FILE_NOT_REMOVED = Warning "file-not-removed" "Remove it by hand, and check the permissions of its directory.";
    /// A thread could not be placed on its processors; it runs elsewhere.
    CPU_NOT_AVAILABLE = Warning "cpu-not-available" "Check `cpu` of the node, and the processors that the process may use.";
    /// The run uses this copy of a library or script.
    CODE_LOADED = Info "code-loaded" "";
    /// A run that is to be like an earlier one loads another version of a library or script.
    CODE_CHANGED = Warning "code-changed" "Install the version of that run, or compare the two runs: `sheaf runs compare`.";
    /// Whoever can reach an address of this run may take part in it.
    OPEN_TO_STRANGERS = Warning "open-to-strangers" "Set `transport.key_file` or `transport.tls` unless the network is private.";
    /// A node accepts programs, processors or triggers at this address.
    LISTENING = Info "listening" "";
    /// Messages were left out of the log, because it was full, could not be written, or was not read.
    LOG_INCOMPLETE = Warning "log-incomplete" "Free some space, raise `log.max_bytes`, or find what logs so much: `sheaf log --json` shows the codes.";
    /// Remarkable events have no trace, because the file of traces is full or cannot be written. No data are lost.
    TRACES_INCOMPLETE = Warning "traces-incomplete" "Free some space, or raise `trace.file_bytes`.";
    /// A hook is called: a command of `[hook.NAME]`.
    HOOK_BEGINS = Info "hook-begins" "";
    /// A line of output of a hook.
    HOOK_OUTPUT = Info "hook-output" "";
    /// A hook has ended well.
    HOOK_DONE = Info "hook-done" "";
    /// A hook failed, or was ended because its time was over. A required one before the start refuses the run; others have no effect on it.
    HOOK_FAILED = Warning "hook-failed" "Its output is in the log before this message: `sheaf log --code hook-output`. Correct the command, or raise `timeout_ms` of the hook.";
    /// The hooks of a configuration are not called, because its nodes are started one by one.
    HOOKS_NOT_CALLED = Warning "hooks-not-called" "Only `sheaf run` and `sheaf serve` call hooks. Call the commands in the script that starts the nodes.";
    /// The results of hooks after the end of a run could not be added to its record.
    HOOK_NOT_RECORDED = Warning "hook-not-recorded" "They are in the log. A hook that moves the directory of the run has this effect.";
    /// The progress of the run, on standard error only.
    PROGRESS = Info "progress" "";
    /// A message without a code, of a library or of a command that is no run.
    OTHER = Info "other" "";

    "Links between nodes":
    /// A link between two nodes that worked is down.
    LINK_DOWN = Warning "link-down" "Check whether the peer still runs, and the network to its host. Nodes connect again by themselves.";
    /// A node cannot connect with a peer, or one of the two refuses the other.
    LINK_REFUSED = Warning "link-refused" "The message has the reason: another key, another run, another release, or an address that is not reachable.";
    /// Two nodes of different releases use a version of the protocol that both speak.
    RELEASES_DIFFER = Info "releases-differ" "";
    /// A message from a peer could not be parsed, or was not of the peer at the other end; it was dropped.
    MESSAGE_BAD = Warning "message-bad" "Run the same release on all nodes. If it goes on, check the network hardware.";
    /// A message is longer than the transport allows, and was not sent.
    MESSAGE_TOO_LONG = Error "message-too-long" "Raise `transport.max_frame_bytes` on all nodes.";
    /// The network interface of a node, and how its packets are sent and received.
    NETWORK_WAY = Info "network-way" "";

    "Sources and readout units":
    /// A source gives no fragments while others do.
    SOURCE_SILENT = Warning "source-silent" "Look at its front end and its link.";
    /// A source reports an error, or lost data.
    SOURCE_ERROR = Warning "source-error" "The message has the reason; look at the front end.";
    /// A source has ended.
    SOURCE_ENDED = Info "source-ended" "";
    /// The event numbers of a source are off from some event on.
    SOURCE_SHIFTED = Warning "source-shifted" "Look at the trigger input and the counter of its front end. See `source.numbering`.";
    /// A source whose event numbers were off is renumbered.
    SOURCE_RENUMBERED = Warning "source-renumbered" "Look at the trigger input and the counter of its front end.";
    /// An operator has excluded a source.
    SOURCE_EXCLUDED = Warning "source-excluded" "Events are complete without it. Include it again when it works: `sheaf ctl include`.";
    /// A source that was excluded is included again.
    SOURCE_INCLUDED = Info "source-included" "";
    /// An operator has excluded a node.
    NODE_EXCLUDED = Warning "node-excluded" "Events are complete without a readout unit that is excluded, and a builder unit gets no events. Include it again when it works: `sheaf ctl include`.";
    /// A node that was excluded is included again.
    NODE_INCLUDED = Info "node-included" "";
    /// The library of `source.library.path` reported a failure.
    SOURCE_LIBRARY_FAILED = Warning "source-library-failed" "The message is the library's.";
    /// Nothing has moved in a readout unit for a while.
    NO_PROGRESS = Warning "no-progress" "The message names the event that waits, and for which source. Repair that source, or raise `readout.buffer_bytes`.";
    /// A readout unit restarted; the fragments that it held are lost.
    READOUT_RESTARTED = Warning "readout-restarted" "Find out why it ended: its messages, and the kernel's log.";
    /// A program that feeds sources declines the start of the run.
    START_DECLINED = Warning "start-declined" "The reason is the program's.";
    /// A program feeds sources.
    FEEDER_JOINED = Info "feeder-joined" "";
    /// A program that feeds a source has gone.
    FEEDER_GONE = Warning "feeder-gone" "Start it again; it continues where it was.";
    /// A program that wanted to feed sources was refused.
    FEEDER_REFUSED = Warning "feeder-refused" "The message has the reason: another run, a source that is fed already, or a missing key.";
    /// The connection to a program that feeds sources is closed, because it broke the protocol.
    FEEDER_CLOSED = Warning "feeder-closed" "The message says which rule; repair the program.";
    /// A program that feeds sources was started.
    PROGRAM_STARTED = Info "program-started" "";
    /// A line of output of a program.
    PROGRAM_OUTPUT = Info "program-output" "";
    /// A program that a node started has ended.
    PROGRAM_ENDED = Info "program-ended" "";
    /// A program that a node started failed, and is started again.
    PROGRAM_RESTARTED = Warning "program-restarted" "Look at its output, in `NODE.PROGRAM.log` of the run directory.";
    /// A program that a node started is not started again.
    PROGRAM_GIVEN_UP = Warning "program-given-up" "Look at its output, in `NODE.PROGRAM.log` of the run directory.";
    /// Output of a program is left out, because its file is full or cannot be written.
    PROGRAM_LOG_INCOMPLETE = Warning "program-log-incomplete" "Raise `source.command.log_bytes`, or free some space.";
    /// A preprocessor failed on a fragment, which is sent unprocessed.
    FRAGMENT_UNPROCESSED = Warning "fragment-unprocessed" "The reason is the preprocessor's.";
    /// A worker of the preprocessor died or hung, and is replaced.
    PREPROCESSOR_WORKER_REPLACED = Warning "preprocessor-worker-replaced" "Look at the library of `preprocessing.path`.";
    /// A worker of the preprocessor died or hung, and cannot be replaced.
    PREPROCESSOR_WORKER_LOST = Error "preprocessor-worker-lost" "Look at the library of `preprocessing.path`, and start the run anew.";
    /// A source that should be replayed has no stream; every event lacks it.
    STREAM_MISSING = Warning "stream-missing" "Copy its stream, or change `source.replay.expected`.";
    /// A replayed stream has damaged records, or is cut off.
    STREAM_DAMAGED = Warning "stream-damaged" "Run `sheaf verify` on it, and copy it again if the original is whole.";
    /// No source of the run has a name in the configuration.
    NAMES_UNUSED = Warning "names-unused" "Compare the ids in `source.map` and `[source.names]` with those of the run.";
    /// A clock names a card that sends nothing.
    CARD_UNUSED = Warning "card-unused" "Check the number of the card.";
    /// Hits are not in the hit spool, or cannot be read from it.
    SPOOL_INCOMPLETE = Warning "spool-incomplete" "The message has the reason: a full or slow disk, or a damaged segment.";
    /// A hit spool works no more, or drops hits.
    SPOOL_FAILED = Error "spool-failed" "The message has the reason. Start the run anew.";
    /// A program that wanted hits of a spool was refused or dropped.
    REQUESTER_REFUSED = Warning "requester-refused" "The message has the reason.";

    "Triggers":
    /// The run waits for a trigger supervisor.
    TRIGGER_SUPERVISOR_AWAITED = Info "trigger-supervisor-awaited" "";
    /// A trigger supervisor is connected.
    TRIGGER_SUPERVISOR_JOINED = Info "trigger-supervisor-joined" "";
    /// The trigger supervisor has gone.
    TRIGGER_SUPERVISOR_GONE = Warning "trigger-supervisor-gone" "Start it again; the run waits for one.";
    /// A connection to the trigger address was refused.
    TRIGGER_SUPERVISOR_REFUSED = Warning "trigger-supervisor-refused" "The message has the reason: another key, another run, or a supervisor that is connected already.";
    /// The trigger supervisor did not stop or did not give its account in time.
    TRIGGER_SUPERVISOR_SLOW = Warning "trigger-supervisor-slow" "Look at the supervisor; its books are incomplete.";
    /// The program that gives the triggers has ended, and so does the run.
    TRIGGER_PROGRAM_ENDED = Warning "trigger-program-ended" "Look at its output, in `NODE.PROGRAM.log` of the run directory.";
    /// A function of the trigger library takes long; there are no triggers until it returns.
    TRIGGER_LIBRARY_SLOW = Warning "trigger-library-slow" "Look at the library of `trigger.library.path`.";
    /// The trigger library failed.
    TRIGGER_LIBRARY_FAILED = Error "trigger-library-failed" "The message is the library's.";
    /// Payloads of triggers cannot be given to their readout unit.
    TRIGGER_PAYLOADS_UNSENT = Warning "trigger-payloads-unsent" "That readout unit must run on the host of the event manager.";
    /// Busy cannot be signalled to the front ends.
    BUSY_SIGNAL_FAILED = Warning "busy-signal-failed" "The message has the reason.";
    /// Number of times that busy was signalled.
    BUSY_SIGNAL_TOTALS = Info "busy-signal-totals" "";

    "Building, filters and outputs":
    /// A builder unit is lost; its events that are not stored go to others.
    BUILDER_LOST = Warning "builder-lost" "Find out why it ended: its messages, and the kernel's log. It may be started again.";
    /// No builder unit or output node is left; the run ends soon unless one is restarted.
    NO_UNIT_LEFT = Warning "no-unit-left" "Start one, and find out why they ended.";
    /// Nodes that the run requires are missing; the message says whether it goes on.
    REQUIREMENT_UNMET = Warning "requirement-unmet" "Start the nodes again, and find out why they ended; `require` in the configuration has the rule.";
    /// Enough of the nodes that the run requires are there again.
    REQUIREMENT_MET = Info "requirement-met" "";
    /// A builder unit was given up by the event manager, and begins a new session.
    SESSION_RESTARTED = Warning "session-restarted" "Reduce the load, or raise `manager.peer_timeout_ms` and `manager.silence_timeout_ms`.";
    /// The content of an event differs from what its sources sent.
    CONTENT_WRONG = Error "content-wrong" "Check memory and network, and the checksums of the source.";
    /// An output does not work or has no room; events wait.
    OUTPUT_FAILING = Error "output-failing" "Look at the disk: free space, errors in the log, other writers.";
    /// An output works again.
    OUTPUT_WORKS = Info "output-works" "";
    /// An output node restarted; events that it had not stored are stored again.
    OUTPUT_RESTARTED = Warning "output-restarted" "Find out why it ended: its messages, and the kernel's log.";
    /// The output of a session that was given up could not be closed; its events do not count.
    OUTPUT_ABANDONED = Warning "output-abandoned" "None: others build these events again.";
    /// The run may write more than the disk has room for.
    DISK_SMALL = Warning "disk-small" "Free some space, or use another disk.";
    /// The run ends because the disk has little room left.
    DISK_NEARLY_FULL = Warning "disk-nearly-full" "Free some space, and start another run. See `output.keep_free_bytes`.";
    /// Files have events that do not count, because others built them again; readers of the run skip them.
    EVENTS_VOID = Info "events-void" "";
    /// Events that were reported as stored are not in the files.
    EVENTS_MISSING = Error "events-missing" "Check the disk, and run `sheaf verify` on the run.";
    /// The database of runs does not have a run, or not its end. The directory of the run has everything.
    DATABASE_BEHIND = Warning "database-behind" "Nothing is lost: the next run that reaches the database writes what is missing, and `sheaf runs rebuild` does it at once.";
    /// The database that gives the run numbers is down, and a run has one of those in reserve.
    NUMBER_FROM_RESERVE = Warning "number-from-reserve" "Start the database: when the reserve is used up, runs need `run.number`.";
    /// Closed files were not converted, or not in time. The event files are complete.
    CONVERSION_INCOMPLETE = Warning "conversion-incomplete" "Run `sheaf export`, or free some space.";
    /// Closed files are converted again.
    CONVERSION_WORKS = Info "conversion-works" "";
    /// A converted file is damaged.
    CONVERTED_FILE_DAMAGED = Error "converted-file-damaged" "Convert the event files again with `sheaf export`.";
    /// The object store does not work; uploads are tried again.
    OBJECT_STORE_FAILING = Warning "object-store-failing" "Check the store and the network. Run `sheaf upload` after the run if files are left.";
    /// The object store works again.
    OBJECT_STORE_WORKS = Info "object-store-works" "";
    /// Events wait for a processor, and none has joined.
    PROCESSORS_AWAITED = Warning "processors-awaited" "Start `sheaf processor --join`.";
    /// A processor judges events.
    PROCESSOR_JOINED = Info "processor-joined" "";
    /// A processor was refused.
    PROCESSOR_REFUSED = Warning "processor-refused" "The message has the reason: another key, run or release.";
    /// A worker or processor of a filter farm has gone, or failed; its events are judged by others.
    PROCESSOR_LOST = Warning "processor-lost" "Look at its messages, and at the filter.";
    /// A worker of a filter farm ended, and is restarted.
    WORKER_RESTARTED = Warning "worker-restarted" "Look at its messages, and at the filter.";
    /// A worker of a filter farm cannot be started.
    WORKER_LOST = Error "worker-lost" "The message has the reason.";
    /// The process of a decoder died or hung, and is started again.
    DECODER_RESTARTED = Error "decoder-restarted" "Look at the decoder of `source.decoder`.";
    /// A consumer watches the run.
    CONSUMER_JOINED = Info "consumer-joined" "";
    /// A consumer has left.
    CONSUMER_LEFT = Info "consumer-left" "";
    /// A consumer read nothing or broke the protocol, and was dropped. The run is not affected.
    CONSUMER_DROPPED = Warning "consumer-dropped" "Look at the consumer; let it ask for fewer events.";
    /// A consumer cannot join.
    CONSUMER_REFUSED = Warning "consumer-refused" "The message has the reason: no key, another key, or too many consumers.";
    /// Consumers cannot join the run; the run is not affected.
    CONSUMERS_UNAVAILABLE = Warning "consumers-unavailable" "The message has the reason, often an address that is in use.";
    /// Histograms of consumers are not taken; the run is not affected.
    HISTOGRAMS_UNAVAILABLE = Warning "histograms-unavailable" "The message has the reason.";
    /// The file of histograms cannot be written. It is tried again, and the histograms stay in memory until then.
    HISTOGRAMS_NOT_WRITTEN = Warning "histograms-not-written" "Free some space, and check the permissions of the run directory.";
    /// A histogram of a consumer was refused. It is logged once for each reason in a run; the record of the run counts all.
    HISTOGRAM_REFUSED = Warning "histogram-refused" "The message has the remedy.";

    "Values from outside":
    /// A value from outside is beyond a limit whose alarm is a warning.
    VALUE_WARNING = Warning "value-warning" "The message has the remedy.";
    /// A value from outside is beyond a limit whose alarm is an error.
    VALUE_ERROR = Error "value-error" "The message has the remedy.";
    /// A value from outside is not known: nobody writes its file or sends it any more, or its number cannot be read.
    VALUE_STALE = Warning "value-stale" "The message has the reason. Look at the program that writes or sends the value.";
    /// Values that programs send to the controller do not get to the run.
    VALUES_NOT_PASSED_ON = Warning "values-not-passed-on" "Free some space, and check the permissions of the directory of the controller.";

    "Run control and the page":
    /// Where run control is, and how to use it.
    CONTROL_ADDRESS = Info "control-address" "";
    /// An operation of run control has ended, or the controller says what it does.
    CONTROL_NEWS = Info "control-news" "";
    /// The controller ends, and its run goes on.
    CONTROLLER_LEAVES = Warning "controller-leaves" "Start it again to direct the run.";
    /// The controller cannot write its state or who asked for what.
    CONTROL_NOT_RECORDED = Error "control-not-recorded" "Free some space, and check the permissions of its directory.";
    /// A controller and the process of a run do not understand each other.
    CONTROL_UNREADABLE = Warning "control-unreadable" "Run the same release of both.";
    /// There were many wrong tokens within a minute.
    WRONG_TOKENS = Warning "wrong-tokens" "Find out who tries; `sheaf token list` shows the tokens that there are.";
    /// A command was not carried out within its time limit.
    LATE = Error "late" "The message has the remedy.";
    /// A run did not end in time, and its events in flight were dropped.
    STOP_CUT = Error "stop-cut" "Find what they waited for; raise `control.stop_timeout_ms`.";
    /// A run did not end in time, and its processes were killed.
    KILLED = Error "killed" "Run `sheaf verify` on the run.";
    /// Processes of a run do not end although they were killed.
    CANNOT_KILL = Error "cannot-kill" "Find them with `ps`: a process in state `D` waits for a disk.";
    /// Where the page and the metrics are.
    PAGE_ADDRESS = Info "page-address" "";
    /// The page is not served any more; the run is not affected.
    PAGE_FAILED = Error "page-failed" "The message has the reason.";
    /// The page for other hosts has a renewed certificate.
    CERTIFICATE_RENEWED = Info "certificate-renewed" "";
    /// A renewed certificate of the page for other hosts is of no use: the page keeps the one that it has.
    CERTIFICATE_REFUSED = Warning "certificate-refused" "Write both files of `monitor.remote` again; they are looked at every 10 s.";
    /// The page for other hosts has as many connections as it takes.
    PAGE_CROWDED = Warning "page-crowded" "Close pages that nobody looks at; `ss -tn` shows from where the connections come. The page on the loopback address is not affected.";
    /// A notice of an alarm could not be sent.
    NOTICE_FAILED = Warning "notice-failed" "Check `monitor.alarm_command` and `monitor.alertmanager`.";

    "Alarms":
    /// An alarm has ended.
    ALARM_ENDED = Info "alarm-ended" "";
    /// Books do not balance.
    IMBALANCE = Error "imbalance" "This is a bug in Sheaf: keep the run directory and the log, and report it.";
    /// Accepted data were lost.
    LOSS = Error "loss" "See [losses](../concepts/ledger.md#losses).";
    /// A node does not publish.
    NODE_SILENT = Error "node-silent" "Its process is stopped, hangs, or gets no processor time, or its agent is not connected: look at its host; `sheaf ctl recover` starts it again.";
    /// A node has ended during the run.
    NODE_GONE = Error "node-gone" "Its log has the reason; `sheaf ctl recover` starts it again during the run, and `sheaf ctl exclude` leaves it out.";
    /// All nodes of a host have ended or do not publish.
    HOST_SILENT = Error "host-silent" "Look at the host, its power and its network, and whether its agent runs: when the agent is back, its nodes are started again.";
    /// The same of several hosts at once.
    HOSTS_SILENT = Error "hosts-silent" "Look at what these hosts have in common: a switch, a power line, or the network of the host of the run.";
    /// More than 5 % of the last 10 s were dead time.
    DEAD_TIME = Warning "dead-time" "The alarm names the cause and who holds the run up; see [it is slower than expected](#it-is-slower-than-expected).";
    /// Events were built without a required source in the last 10 s.
    INCOMPLETE = Warning "incomplete" "Look at the sources in trouble; make a source that is off for long optional (`sources.optional`).";
}

/// Logs a message with the [code](self) of this name. Fields follow the code: `node`, `event`, `source` and `peer`.
///
/// ```ignore
/// log_as!(LINK_DOWN, node = node, peer = peer; "{node}: link to {peer} is down: {reason}");
/// log_as!(code = find(name).unwrap_or(&OTHER); "{text}");
/// ```
#[macro_export]
macro_rules! log_as {
    (code = $code:expr $(, $field:ident = $value:expr)* ; $($text:tt)+) => {
        if !$crate::is_muted() {
            $crate::log::log!(
                $code.severity.level(),
                code = $code.name $(, $field:% = $value)*;
                $($text)+
            )
        }
    };
    ($code:ident $(, $field:ident = $value:expr)* ; $($text:tt)+) => {
        if !$crate::is_muted() {
            $crate::log::log!(
                $crate::codes::$code.severity.level(),
                code = $crate::codes::$code.name $(, $field:% = $value)*;
                $($text)+
            )
        }
    };
}

/// Returns the code with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Code> {
    ALL.iter().flat_map(|(_, codes)| *codes).find(|code| code.name == name).copied()
}

#[cfg(test)]
mod tests;
