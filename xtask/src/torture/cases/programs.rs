//! Programs that feed the sources of a run at full speed are killed, started again, and stopped for a while. They keep what the run has
//! not accepted, and nothing may be lost or doubled: each fragment is in the files once, with the bytes that were sent.

use super::{Case, Outcome, always};
use crate::torture::books::Promise;
use crate::torture::run::{Run, run_directory};
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

pub(super) const CASES: &[Case] = &[
    always("kill-programs", |trial| kill(trial, Way::Shared)),
    always("kill-programs-over-tcp", |trial| kill(trial, Way::Network)),
    always("freeze-program", |trial| freeze(trial, Way::Shared)),
    always("freeze-program-over-tcp", |trial| freeze(trial, Way::Network)),
];

/// Number of readout units, each with a program that feeds two sources.
const READOUTS: u64 = 2;
const SOURCES: u64 = 2 * READOUTS;

/// Shortest payload. The next events have up to 6 bytes more (`sheaf bench feeder`).
const BYTES: u64 = 100;

/// Average size of an event in the files: head of the event, heads of the fragments, payload.
const EVENT_BYTES: u64 = 72 + SOURCES * (24 + BYTES + 3);

/// Connection of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Shared,
    Network,
}

/// A run with its programs.
struct Fed {
    run: Run,
    events: u64,
    addresses: Vec<String>,
    programs: Vec<Run>,
}

impl Fed {
    /// Starts a run of this many events, and its programs.
    fn start(trial: &mut Trial, way: Way, events: u64, timeouts: &str) -> Result<Self> {
        let port = free_ports()?;
        let listen = match way {
            Way::Shared => String::new(),
            Way::Network => format!("listen = \"127.0.0.1:{port}\"\n"),
        };
        let transport = trial.dice.pick(&["tcp", "shm"]);
        let config = format!(
            "[run]\noutput = {:?}\nduration_s = 0\nevents = {events}\n[source]\nkind = \"feed\"\ncount = {SOURCES}\n\
             [source.feed]\nwindow_fragments = 4096\n{listen}[output]\nkeep_free_bytes = 0\n[transport]\nkind = \"{transport}\"\n{timeouts}",
            trial.output
        );
        std::fs::write(trial.directory.join("run.toml"), config)?;
        let mut run = trial.sheaf("run", &["run", "run.toml", "--json", "--processes"])?;
        run.expect_bytes(events * EVENT_BYTES);
        ensure!(run.says("programs may feed its sources")?, "the run ended before it accepted programs");
        let address = |readout| match way {
            Way::Shared => trial.output.join(format!("ru{readout}.feed")).display().to_string(),
            Way::Network => format!("127.0.0.1:{}", port + readout),
        };
        let addresses = (0..READOUTS as u16).map(address).collect();
        let mut fed = Self { run, events, addresses, programs: Vec::new() };
        for index in 0..fed.addresses.len() {
            let program = fed.program(trial, index, 0)?;
            fed.programs.push(program);
        }
        Ok(fed)
    }

    /// Starts the program of a readout unit. It continues where an earlier one was killed.
    fn program(&self, trial: &Trial, index: usize, life: u64) -> Result<Run> {
        let assignment = serde_json::json!({
            "address": self.addresses[index],
            "sources": [2 * index, 2 * index + 1],
            "bytes": BYTES,
            "batch": 16,
            "checksum": true,
            "keep": true,
            "in_place": false,
            "events": self.events,
        });
        trial.sheaf(&format!("program{index}-{life}"), &["bench", "feeder", &assignment.to_string()])
    }

    /// Waits for the end of the programs and of the run, and compares the files with what was sent.
    fn end(self, trial: &mut Trial) -> Result<Outcome> {
        let ended = self.run.end()?;
        for program in self.programs {
            let ended = program.end()?;
            if !ended.status.success() {
                trial.problem(format!("a program ended with {}: {}", ended.status, ended.stderr));
            }
        }
        trial.check(&ended, &Promise::nothing_lost(), SOURCES)?;
        check_content(trial, self.events)?;
        Ok(Outcome::Done)
    }
}

/// Returns a free port whose next one is free, too.
fn free_ports() -> Result<u16> {
    // Below those that the operating system gives to programs that ask for any port, and beside those of the tests of the command.
    let begin = u16::try_from(std::process::id() % 2_000)?;
    let mut pairs = (0..2_000).map(|pair| 15_000 + 2 * ((begin + pair) % 2_000));
    let is_free = |port: &u16| (*port..*port + 2).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    pairs.find(is_free).ok_or_else(|| anyhow::anyhow!("there are no two free ports side by side"))
}

/// Programs die at any moment, in a run that takes what they send as fast as it can. Events wait for the next life of a source.
fn kill(trial: &mut Trial, way: Way) -> Result<Outcome> {
    let kills = trial.by_scale(8, 200);
    // Without this, events would wait for the time of a silent source.
    let waits = "[readout]\ncount = 2\n[builder]\ncount = 2\n[incomplete]\npolicy = \"wait\"\n";
    let mut fed = Fed::start(trial, way, 10_000 * (kills + 2), waits)?;
    for life in 1..=kills {
        if !fed.run.reaches_part(life, kills + 2)? {
            trial.problem(format!("the run ended after {} of {kills} kills", life - 1));
            break;
        }
        let index = trial.dice.below(READOUTS) as usize;
        let victim = fed.programs.remove(index);
        victim.signal("KILL")?;
        let ended = victim.end()?;
        if ended.status.success() {
            // It has given everything before the kill reached it.
            break;
        }
        if ended.status.code().is_some() {
            trial.problem(format!("a program ended before it was killed: {}", ended.stderr));
        }
        trial.tally.kills += 1;
        fed.programs.insert(index, fed.program(trial, index, life)?);
    }
    trial.note(format!("killed programs {kills} times in {} events", fed.events));
    fed.end(trial)
}

/// A program is stopped for longer than any time limit between nodes. It is not lost, and its sources are waited for.
fn freeze(trial: &mut Trial, way: Way) -> Result<Outcome> {
    let timeouts = "dead_peer_ms = 1000\n[readout]\ncount = 2\nmerge_timeout_ms = 200\n[builder]\ncount = 2\n\
                    event_timeout_ms = 1000\nrequest_retry_ms = 300\n";
    let mut fed = Fed::start(trial, way, trial.by_scale(100_000, 400_000), timeouts)?;
    let percent = trial.moment();
    if trial.wait_for(&mut fed.run, percent)? {
        let index = trial.dice.below(READOUTS) as usize;
        let time = std::time::Duration::from_millis(trial.by_scale(4_000, 60_000));
        trial.freeze(&format!("a program at {percent} %"), &[fed.programs[index].id()], time);
    }
    fed.end(trial)
}

/// Compares the fragments in the files with those that were sent.
fn check_content(trial: &mut Trial, events: u64) -> Result<()> {
    let run = run_directory(&trial.output)?;
    let mut dump = Command::new(&trial.sheaf)
        .args(["dump", "--csv"])
        .arg(run)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start `sheaf dump`")?;
    let output = dump.stdout.take().context("it has a pipe")?;
    // The payload of an event repeats with this period.
    let expected: Vec<(u64, u32)> = (0..256 * 7).map(sent).collect();
    let mut seen = vec![0_u64; SOURCES as usize];
    for line in BufReader::new(output).lines().skip(1) {
        let line = line?;
        let cells: Vec<&str> = line.split(',').collect();
        let [event, source, time, bytes, crc32] = cells[..] else {
            anyhow::bail!("dump has the line {line:?}")
        };
        let (event, source): (u64, usize) = (event.parse()?, source.parse()?);
        let (length, checksum) = expected[(event % (256 * 7)) as usize];
        let is_same = time.parse() == Ok(event) && bytes.parse() == Ok(length);
        if !is_same || u32::from_str_radix(crc32, 16) != Ok(checksum) || event >= events {
            trial.problem(format!("{line:?} is not what was sent"));
        }
        seen[source] += 1;
    }
    ensure!(dump.wait()?.success(), "`sheaf dump` failed");
    for (source, seen) in seen.into_iter().enumerate().filter(|(_, seen)| *seen != events) {
        trial.tally.lost += events.saturating_sub(seen);
        trial.problem(format!("{seen} of {events} fragments of source {source} are in the files"));
    }
    Ok(())
}

/// Returns the length and the checksum of the payload of an event.
fn sent(event: u64) -> (u64, u32) {
    let length = BYTES + event % 7;
    (length, crc32((0..length).map(|_| event as u8)))
}

/// CRC-32 as in `sheaf dump`.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_dump() {
        assert_eq!(crc32(b"123456789".iter().copied()), 0xcbf4_3926);
        assert_eq!(sent(0), (100, crc32([0; 100].into_iter())));
        assert_eq!(sent(256 * 7 + 5), sent(5));
    }
}
