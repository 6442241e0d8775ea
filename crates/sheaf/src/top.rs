//! `sheaf top`: the state of a run in a terminal, from the page of the run or of its controller.

mod view;

use crate::Verdict;
use crate::control_directory::ControlDirectory;
use crate::ctl::client::{Client, Trust};
use crate::page::DEFAULT_PORT;
use crate::print::print;
use crate::signals;
use ::console::Term;
use anyhow::{Context as _, bail};
use clap::Args;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use view::{Frame, Sample};

/// Longest sleep, so that Ctrl-C is heard.
const NAP: Duration = Duration::from_millis(50);

/// Time between the two samples of a frame that is printed once.
const BETWEEN: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// Address of the page of a run or of a controller [default: that of the controller in `--directory`; without one,
    /// http://127.0.0.1:7070].
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Directory of the controller: it has the address.
    #[arg(long, value_name = "DIR", default_value = "runs/control")]
    directory: PathBuf,
    /// Partition that the controller has: its directory has `-NAME` at its end.
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    #[command(flatten)]
    trust: Trust,
    /// Time between two looks, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval_ms: u64,
    /// Print the state once, with the rates of one second. This is the default where standard output is no terminal.
    #[arg(long)]
    once: bool,
}

pub(crate) fn command(arguments: &TopArguments) -> anyhow::Result<Verdict> {
    let (url, client) = client(arguments)?;
    let terminal = Term::stdout();
    if arguments.once || !terminal.is_term() {
        return once(&client, &url);
    }
    let stop = signals::stop_flag()?;
    let interval = Duration::from_millis(arguments.interval_ms);
    let _cursor = HiddenCursor::begin(&terminal)?;
    terminal.clear_screen()?;
    let (mut before, mut latest) = (None, None);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        match sample(&client) {
            Ok(sample) => before = latest.replace(sample),
            // The last state stays in view, and its age grows.
            Err(error) if latest.is_none() => return Err(unreached(&url, &error)),
            Err(_) => {}
        }
        if let Some(latest) = &latest {
            let (rows, columns) = terminal.size();
            let size = (usize::from(rows), usize::from(columns));
            let frame = Frame { url: &url, before: before.as_ref(), latest, now: Instant::now() };
            terminal.write_str(&frame.screen(size)).context("cannot write to the terminal")?;
        }
        while begin.elapsed() < interval && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(NAP.min(interval.saturating_sub(begin.elapsed())));
        }
    }
    Ok(Verdict::Good)
}

/// Prints one state, with the rates since another one.
fn once(client: &Client, url: &str) -> anyhow::Result<Verdict> {
    let before = sample(client).map_err(|error| unreached(url, &error))?;
    if before.is_in_progress() {
        std::thread::sleep(BETWEEN);
    }
    let latest = sample(client).map_err(|error| unreached(url, &error))?;
    let frame = Frame { url, before: Some(&before), latest: &latest, now: Instant::now() };
    print(&frame.text())?;
    Ok(Verdict::Good)
}

fn sample(client: &Client) -> anyhow::Result<Sample> {
    let state = client.get_once("/api/v1/state")?;
    if state["run"].is_null() {
        bail!("the answer is not the state of a run");
    }
    Ok(Sample { state, at: Instant::now() })
}

fn unreached(url: &str, error: &anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "no page of a run is at {url}: {error:#}; start the run with `--page`, or with `sheaf serve`, and give the address that it prints"
    )
}

/// Returns the address of the page, and its client.
fn client(arguments: &TopArguments) -> anyhow::Result<(String, Client)> {
    let directory = ControlDirectory::new(&arguments.directory).of_partition(arguments.partition.as_deref());
    let of_controller = || directory.read_address().ok();
    let url =
        arguments.url.clone().or_else(of_controller).unwrap_or_else(|| format!("127.0.0.1:{DEFAULT_PORT}"));
    let client = Client::new(&url, &arguments.trust, None)?;
    Ok((client.url().to_owned(), client))
}

/// Shows the cursor again when the view ends.
struct HiddenCursor<'a>(&'a Term);

impl<'a> HiddenCursor<'a> {
    fn begin(terminal: &'a Term) -> anyhow::Result<Self> {
        terminal.hide_cursor()?;
        Ok(Self(terminal))
    }
}

impl Drop for HiddenCursor<'_> {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
    }
}
