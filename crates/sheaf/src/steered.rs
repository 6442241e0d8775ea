//! Requests to nodes in processes of their own.
//!
//! They come from the process that has started the node, over its standard output, which is a socket then, as lines of JSON: what a
//! controller wants of the event manager, whenever it changes, and events whose stamps are wanted. Standard input is the listening socket
//! of the node.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sheaf_node::{Exclusions, RunControls};
use sheaf_telemetry::log_as;
use sheaf_wire::{NodeId, Role, SourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time that a node has to take a request. It reads them on a thread of its own, so one that does not has been stopped.
const PATIENCE: Duration = Duration::from_millis(20);

/// A request to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeRequest {
    /// Requests of a controller to the event manager.
    Course {
        /// Whether the start of the run is held.
        hold: bool,
        /// Whether the run is to be paused.
        pause: bool,
        /// Sources that are to be excluded.
        #[serde(default)]
        excluded: BTreeSet<u32>,
        /// Indices of readout units and of builder units that are to be excluded.
        #[serde(default)]
        excluded_nodes: [BTreeSet<u16>; 2],
        /// Whether another run follows without a gap when this one ends, and whether this one is to end in favour of it.
        #[serde(default)]
        succession: [bool; 2],
    },
    /// Prepare the next run while the present one goes on.
    Prepare(NextRun),
    /// The run of this order is not to be.
    CallOff(u32),
    /// Begin the next run. The node has handed over.
    Begin(NextRun),
    /// Step down, so that the standby of the event manager takes over.
    StepDown,
    /// The stamps of these events are wanted.
    Stamps(Vec<u64>),
    /// Nothing more is wanted of a node that has ended.
    End,
}

/// A run that follows another one without a gap, for a node that takes part in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NextRun {
    /// Number of the order to prepare it. A run that could not be prepared may be ordered again.
    pub(crate) order: u32,
    pub(crate) run: u32,
    /// Its configuration, with copies of the code that it loads beside.
    pub(crate) configuration: PathBuf,
    /// Whether another run follows it without a gap.
    pub(crate) hands_over: bool,
}

/// Passes requests to a node of another host. Returns whether a request is on its way.
pub(crate) type RemoteLine = Box<dyn Fn(&NodeRequest) -> bool + Send + Sync>;

/// The end of the parent of a line to a node.
enum NodeLine {
    Here(UnixStream),
    There(RemoteLine),
}

/// The ends of the parent, by node.
#[derive(Clone, Default)]
pub(crate) struct NodeLines {
    lines: Arc<Mutex<BTreeMap<NodeId, NodeLine>>>,
    /// Index of the replica that acts as the event manager.
    manager: Arc<AtomicU16>,
}

impl NodeLines {
    /// Adds the line to a node that begins, or begins again.
    pub(crate) fn add(&self, node: NodeId, stream: UnixStream) {
        if let Err(error) = stream.set_write_timeout(Some(PATIENCE)) {
            log::debug!("requests to {node} may wait: {error}");
        }
        self.lines().insert(node, NodeLine::Here(stream));
    }

    /// Adds the line to a node of another host.
    pub(crate) fn add_remote(&self, node: NodeId, line: RemoteLine) {
        self.lines().insert(node, NodeLine::There(line));
    }

    /// Returns the replica that acts as the event manager.
    pub(crate) fn manager(&self) -> NodeId {
        NodeId::manager(self.manager.load(Ordering::Relaxed))
    }

    /// Takes note that a replica of the event manager has taken over.
    pub(crate) fn note_take_over(&self, replica: NodeId) {
        self.manager.store(replica.index, Ordering::Relaxed);
    }

    /// Passes a request to a node. One that does not take it gets no others: a line may have been cut. Returns whether it takes it.
    pub(crate) fn tell(&self, node: NodeId, request: &NodeRequest) -> bool {
        let mut lines = self.lines();
        let stream = match lines.get_mut(&node) {
            Some(NodeLine::Here(stream)) => stream,
            Some(NodeLine::There(line)) => return line(request),
            None => return false,
        };
        let Ok(mut line) = serde_json::to_vec(request) else { return false };
        line.push(b'\n');
        if let Err(error) = stream.write_all(&line) {
            log::debug!("{node} does not take requests any more: {error}");
            lines.remove(&node);
            return false;
        }
        true
    }

    /// Forgets the line to a node that has ended.
    pub(crate) fn remove(&self, node: NodeId) {
        self.lines().remove(&node);
    }

    /// Returns the nodes that take requests.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.lines().keys().copied().collect()
    }

    /// Passes a request to all nodes. Returns the number of those that take it.
    pub(crate) fn tell_all(&self, request: &NodeRequest) -> usize {
        self.nodes().into_iter().filter(|node| self.tell(*node, request)).count()
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<NodeId, NodeLine>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests of a controller to the event manager, as they change.
pub(crate) struct Steered {
    controls: Arc<RunControls>,
    lines: NodeLines,
    /// Last request, and the replica of the event manager that has it.
    sent: Option<(NodeId, NodeRequest)>,
}

impl Steered {
    pub(crate) fn new(controls: Arc<RunControls>, lines: NodeLines) -> Self {
        Self { controls, lines, sent: None }
    }

    /// Passes on requests that have changed.
    pub(crate) fn pass_on(&mut self) {
        let RunControls { hold, pause, excluded, succession, .. } = &*self.controls;
        let ends = succession.next.load(Ordering::Acquire);
        let Exclusions { sources, nodes } = excluded.get();
        let of = |role| nodes.iter().filter(|node| node.role == role).map(|node| node.index).collect();
        let request = NodeRequest::Course {
            hold: hold.load(Ordering::Relaxed),
            pause: pause.load(Ordering::Relaxed),
            excluded: sources.into_iter().map(|source| source.0).collect(),
            excluded_nodes: [Role::Readout, Role::Builder].map(of),
            succession: [succession.hands_over.load(Ordering::Relaxed), ends],
        };
        let sent = Some((self.lines.manager(), request));
        if self.sent != sent
            && let Some((manager, request)) = &sent
        {
            let _ = self.lines.tell(*manager, request);
            self.sent = sent;
        }
    }
}

/// Follows the requests of the parent from now on, in the process of the node. Those that are not for its controls are passed to `other`,
/// which is dropped when there will be no more.
pub(crate) fn follow(
    controls: Arc<RunControls>,
    mut other: impl FnMut(NodeRequest) + Send + 'static,
) -> anyhow::Result<()> {
    let socket = std::io::stdout().as_fd().try_clone_to_owned().context("standard output is no socket")?;
    let lines = BufReader::new(UnixStream::from(socket)).lines();
    let body = move || {
        for line in lines.map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(NodeRequest::Course { hold, pause, excluded, excluded_nodes, succession }) => {
                    let [readouts, builders] = excluded_nodes;
                    let readouts = readouts.into_iter().map(NodeId::readout);
                    let nodes = readouts.chain(builders.into_iter().map(NodeId::builder)).collect();
                    let sources = excluded.into_iter().map(SourceId).collect();
                    // Before the start is released.
                    controls.excluded.set(Exclusions { sources, nodes });
                    controls.hold.store(hold, Ordering::Relaxed);
                    controls.pause.store(pause, Ordering::Relaxed);
                    let [hands_over, ends] = succession;
                    controls.succession.hands_over.store(hands_over, Ordering::Relaxed);
                    controls.succession.next.store(ends, Ordering::Release);
                }
                Ok(NodeRequest::StepDown) => controls.step_down.store(true, Ordering::Relaxed),
                Ok(NodeRequest::Begin(next)) => {
                    // Requests that follow are for this run.
                    controls.succession.begin_run(next.hands_over);
                    other(NodeRequest::Begin(next));
                }
                Ok(NodeRequest::End) => break,
                Ok(request) => other(request),
                Err(error) => log_as!(CONTROL_UNREADABLE; "a request of the parent cannot be read: {error}"),
            }
        }
    };
    std::thread::Builder::new().name("requests".into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
