//! Arguments of `sheaf node`.

use clap::Args;
use sheaf_config::LogFormat;
use std::path::PathBuf;
use std::str::FromStr as _;

#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// Configuration file, the same on every host.
    pub(crate) config: PathBuf,
    /// Name of the node in the configuration.
    pub(crate) name: String,
    /// Listen at this address instead of the configured one, which need not belong to this host.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Take part in a run of this partition of the system, which the configuration describes in `[partition.NAME]` [default: the whole system].
    #[arg(long, value_name = "NAME")]
    pub(crate) partition: Option<String>,
    /// Run number, instead of `run.number` in the configuration.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) run: Option<u32>,
    /// Serve a page that shows this node, and its metrics, at this loopback address.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) page: Option<String>,
    /// Form of messages on standard error [default: `log.format` of the configuration; without one, text].
    #[arg(long, value_name = "text|json", value_parser = LogFormat::from_str)]
    pub(crate) log: Option<LogFormat>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Started by `sheaf run --processes` or `sheaf lab`: ends with its parent, takes its listening socket from standard
    /// input if there is one.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
    /// Report metrics and messages to the parent, on standard output.
    #[arg(long, hide = true, requires = "supervised")]
    pub(crate) relay: bool,
    /// Report messages to the parent, on standard output.
    #[arg(long, hide = true, requires = "supervised")]
    pub(crate) logged: bool,
    /// Stamp events for the parent, which asks for stamps over standard output, a socket.
    #[arg(long, hide = true, requires = "supervised")]
    pub(crate) traced: bool,
    /// Take requests of a controller from standard output, which is a socket, and begin held.
    #[arg(long, hide = true, requires = "supervised")]
    pub(crate) steered: bool,
    /// The file of the key that `sheaf run --processes` has made for the links of its nodes.
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) run_key: Option<PathBuf>,
    /// Go on with the runs that follow this one without a gap, as the parent requests over standard output, a socket.
    #[arg(long, hide = true, requires = "supervised")]
    pub(crate) goes_on: bool,
    /// The run in which the nodes have met, for a node that begins in a later one.
    #[arg(long, hide = true, requires = "goes_on", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) met_in: Option<u32>,
    /// First event of a run that follows another one, instead of the configured one.
    #[arg(long, hide = true, requires = "goes_on", value_name = "NUMBER")]
    pub(crate) first_event: Option<u64>,
}
