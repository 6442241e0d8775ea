//! Runs that a real Slurm has started, with hosts that die and a controller that goes away. The controller and the daemons of three hosts are started
//! for each test, on this machine.

mod cluster;

use crate::child::{ScratchDirectory, wait_until};
use crate::nodes::free_ports_in_a_row;
use crate::output::{number, verify};
use cluster::Cluster;

/// A run until it is ended: each host has a readout unit and a builder unit, or only the latter.
const SYSTEM: &str = "duration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 400.0\n[builder]\ncount = 3\ncheck_content = true\n\
    [manager]\nstart_timeout_ms = 240000\npeer_timeout_ms = 2000\n";

/// A job that has been submitted.
struct Job<'a> {
    cluster: &'a Cluster,
    id: String,
}

impl<'a> Job<'a> {
    /// Launches a run on three hosts and waits for its events.
    fn begin(cluster: &'a Cluster, readouts: u16, head: &str) -> Self {
        cluster.scratch.file("run.toml", &format!("[run]\n{head}{SYSTEM}[readout]\ncount = {readouts}\n"));
        let port = free_ports_in_a_row(10).to_string();
        let said = cluster.sheaf(&["launch", "slurm", "run.toml", "--hosts=3", "--port", &port, "--time=60"]);
        let id = said.split_whitespace().last().expect("sbatch says the id").to_owned();
        assert!(said.contains("Submitted batch job"), "{said}");
        Self { cluster, id }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.cluster.place().join(format!("launch/job-{}.log", self.id)))
            .unwrap_or_default()
    }

    /// Waits until the log has this text so many times.
    fn wait_for(&self, text: &str, times: usize) {
        wait_until(&format!("the job says `{text}` {times} times; it says:\n{}", self.log()), || {
            assert!(!self.has_ended() || self.count(text) >= times, "the job has ended:\n{}", self.log());
            self.count(text) >= times
        });
    }

    fn count(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Number of events that have ended, out of the last line about the progress of the run.
    fn events(&self) -> u64 {
        let log = self.log();
        let line = log.lines().filter_map(|line| line.strip_prefix("running: ")).next_back();
        let count = line.and_then(|line| line.split_once(" events")).map_or("0", |(count, _)| count);
        count.replace(',', "").parse().expect("a number")
    }

    /// Waits until so many more events have ended.
    fn wait_for_more_events(&self, more: u64) {
        let goal = self.events() + more;
        wait_until(&format!("there are {goal} events; the job says:\n{}", self.log()), || {
            self.events() >= goal
        });
    }

    fn has_ended(&self) -> bool {
        self.log().contains("the run has ended with status")
    }

    /// Ends the run as Slurm does it before the time limit.
    fn end(&self) {
        self.cluster.slurm("scancel", &["--batch", "--signal=TERM", &self.id]);
        self.wait_for_end();
    }

    fn wait_for_end(&self) {
        wait_until("the run ends", || self.has_ended());
        wait_until("Slurm knows that the job has ended", || {
            self.cluster
                .slurm("squeue", &["--noheader", "--states=PENDING,RUNNING", "--jobs", &self.id])
                .trim()
                .is_empty()
        });
    }

    /// Checks that the books balance, and that the files have all events, complete and with the right content. Returns their number.
    fn assert_is_good(&self, status: u8) -> u64 {
        let log = self.log();
        assert!(log.contains("balanced: each trigger and each fragment"), "{log}");
        assert!(log.contains(&format!("the run has ended with status {status}\n")), "{log}");
        let report = verify(&self.cluster.place().join("runs/run000001"), 0);
        assert_eq!(number(&report, "events_incomplete"), 0);
        assert!(
            log.contains("kept              all ") && !log.contains("EVENTS WITH WRONG CONTENT"),
            "{log}"
        );
        let stored =
            log.lines().find_map(|line| line.trim().strip_prefix("stored ")).expect("a line of the ledger");
        let stored = stored.split_whitespace().next().expect("a number").replace(',', "");
        assert_eq!(number(&report, "events").to_string(), stored);
        number(&report, "events")
    }
}

#[test]
fn a_job_of_slurm_makes_a_run_and_ends() {
    let Some(cluster) = Cluster::start(ScratchDirectory::new()) else { return };
    let job = Job::begin(&cluster, 3, "events = 1500\n");
    job.wait_for_end();
    assert_eq!(job.assert_is_good(0), 1_500);
    let log = job.log();
    assert!(log.contains("host 2 of the run is n3, 127.0.0.3\n"), "{log}");
    // Nothing of it is open to others, and nobody was told a secret on the way.
    use std::os::unix::fs::PermissionsExt as _;
    let private = ["agents.key".into(), "run.toml".into(), format!("run-{}.toml", job.id)];
    for name in private {
        let mode =
            std::fs::metadata(cluster.place().join("launch").join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
}

#[test]
fn a_step_of_slurm_that_is_killed_is_started_again_in_the_same_run() {
    let Some(cluster) = Cluster::start(ScratchDirectory::new()) else { return };
    // The third host has a builder unit only, whose events others build again.
    let job = Job::begin(&cluster, 2, "");
    job.wait_for_more_events(200);
    assert_eq!(job.count("begins to use this host for"), 2);
    cluster.kill_agent("127.0.0.3");
    job.wait_for("the agent on n3 has ended", 1);
    job.wait_for("begins to use this host for", 3);
    job.wait_for_more_events(200);
    job.end();
    job.assert_is_good(0);
}

#[test]
fn a_run_survives_a_host_and_the_controller_of_slurm() {
    let Some(mut cluster) = Cluster::start(ScratchDirectory::new()) else { return };
    // The third host has a builder unit only.
    let job = Job::begin(&cluster, 2, "");
    job.wait_for_more_events(200);
    let id = job.id.clone();
    cluster.kill_controller();
    let job = Job { cluster: &cluster, id: id.clone() };
    job.wait_for_more_events(400);
    cluster.kill_host(2);
    let job = Job { cluster: &cluster, id: id.clone() };
    job.wait_for("(session ", 1);
    job.wait_for_more_events(400);
    cluster.start_controller();
    let job = Job { cluster: &cluster, id };
    job.wait_for_more_events(200);
    job.end();
    // The host cannot say any more that its files are closed.
    let events = job.assert_is_good(1);
    assert!(events > 1_200, "{events}");
}
