//! Processes of this host: whether one is still the same, and all of a session.
//!
//! Five fields of `/proc/PID/stat` are all that is needed, so they are read here and not with a crate that reads every file of `/proc`.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;

/// A process that cannot be taken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it began, in clock ticks since the host was booted.
    pub started: u64,
}

impl ProcessId {
    /// Returns the calling process.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = Stat::read(pid)?;
        Ok(Self { pid, started: stat.started })
    }

    /// Returns whether it lives: a process that has ended and that its parent has not noted does not.
    #[must_use]
    pub fn lives(self) -> bool {
        Stat::read(self.pid).is_ok_and(|stat| stat.started == self.started && !stat.has_ended)
    }

    /// Returns the living processes of the session that it leads or has led, itself among them.
    ///
    /// The number of a session is not used again while it has a process, so a session whose leader is a later process is another one,
    /// and the answer is empty.
    #[must_use]
    pub fn session(self) -> Vec<i32> {
        let is_other = |stat: Stat| stat.started != self.started;
        if Stat::read(self.pid).is_ok_and(is_other) {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| self.is_in_session(*pid)).collect()
    }

    fn is_in_session(self, pid: i32) -> bool {
        Stat::read(pid).is_ok_and(|stat| stat.session == self.pid && !stat.has_ended)
    }

    /// Kills every process of that session. Returns how many there were.
    pub fn kill_session(self) -> usize {
        let mut count = 0;
        for pid in self.session() {
            // The descriptor pins the process: its number cannot be reused from here on. So check its session again before the signal.
            let Some(pid) = Pid::from_raw(pid) else { continue };
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if self.is_in_session(pid.as_raw_nonzero().get()) {
                count += usize::from(pidfd_send_signal(&process, Signal::KILL).is_ok());
            }
        }
        count
    }
}

/// Returns the processor time that the threads of a process have had so far, in clock ticks: 10 ms on most hosts. `None` if there is no such
/// process.
#[must_use]
pub fn processor_ticks(pid: u32) -> Option<u64> {
    Stat::read(i32::try_from(pid).ok()?).ok().map(|stat| stat.processor_ticks)
}

struct Stat {
    session: i32,
    started: u64,
    has_ended: bool,
    processor_ticks: u64,
}

impl Stat {
    fn read(pid: i32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat is not as expected"))
    }

    /// The second field is the name in parentheses, and may have any characters. The state follows it, as field 3; the session is field 6,
    /// processor time in user space and in the kernel are fields 14 and 15, and the start is field 22.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<_> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(Self {
            processor_ticks: ticks(11)?.saturating_add(ticks(12)?),
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            has_ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text = "7 (a) S (b) Z 1 8 9 0 -1 4194560 0 0 0 0 30 12 0 0 20 0 1 0 4242 0 0";
        let stat = Stat::parse(text).expect("it is a line of the kernel");
        assert_eq!((stat.session, stat.started, stat.has_ended), (9, 4242, true));
        assert_eq!(stat.processor_ticks, 42);
        assert!(Stat::parse("7 (a) S 1").is_none());
    }

    #[test]
    fn this_process_lives_and_one_with_another_start_does_not() {
        let own = ProcessId::own().expect("/proc is there");
        assert!(own.lives());
        assert!(!ProcessId { started: own.started + 1, ..own }.lives());
        assert!(ProcessId { started: own.started + 1, ..own }.session().is_empty());
    }

    #[test]
    fn work_takes_processor_time() {
        let pid = std::process::id();
        let before = processor_ticks(pid).expect("it lives");
        while processor_ticks(pid) <= Some(before) {
            std::hint::spin_loop();
        }
        assert_eq!(processor_ticks(u32::MAX), None);
    }

    /// `setsid` is a program of util-linux. Its process leads the session itself, because it does not lead a process group.
    #[test]
    fn a_session_is_killed_whole_also_when_its_leader_is_stopped() {
        let mut command = Command::new("setsid");
        let Ok(mut child) = command
            .args(["sh", "-c", "sleep 60 & exec sleep 61"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
        else {
            return eprintln!("left out: `setsid` is not installed");
        };
        let pid = child.id().cast_signed();
        let leader = ProcessId { pid, started: Stat::read(pid).expect("it lives").started };
        while leader.session().len() < 2 {
            std::thread::yield_now();
        }
        rustix::process::kill_process(Pid::from_raw(pid).expect("above 0"), Signal::STOP).expect("it lives");
        assert_eq!(leader.kill_session(), 2);
        while !leader.session().is_empty() {
            std::thread::yield_now();
        }
        child.wait().expect("it has ended");
    }
}
