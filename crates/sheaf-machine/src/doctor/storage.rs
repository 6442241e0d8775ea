//! Where events are written, and memory that processes share.

use super::{Doctor, Remedy, size};
use crate::Root;
use std::path::{Path, PathBuf};

const MOUNTS: &str = "/proc/self/mounts";

/// Less free room than this is worth a word: minutes of a busy builder.
const LITTLE_ROOM: u64 = 10 << 30;

/// File systems whose writes wait for a network.
const REMOTE: [&str; 8] = ["nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "glusterfs", "fuse.sshfs"];

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    if let Some(output) = &doctor.wanted.output {
        let directory = output.directory.clone();
        output_directory(doctor, &directory);
    }
    shared_memory(doctor);
}

/// Bytes that an ordinary user may still write where `path` is, and all bytes.
fn room(root: &Root, path: &Path) -> Option<(u64, u64)> {
    let path = if path.is_absolute() { root.path(&path.to_string_lossy()) } else { path.to_owned() };
    let statistics = rustix::fs::statvfs(&path).ok()?;
    Some((
        statistics.f_bavail.saturating_mul(statistics.f_frsize),
        statistics.f_blocks.saturating_mul(statistics.f_frsize),
    ))
}

/// The nearest directory above `path`, itself included, that is there.
fn existing(root: &Root, path: &Path) -> Option<PathBuf> {
    let absolute = if path.is_absolute() || !root.is_system() {
        path.to_owned()
    } else {
        std::env::current_dir().ok()?.join(path)
    };
    absolute.ancestors().find(|it| root.path(&it.to_string_lossy()).exists()).map(Path::to_owned)
}

/// The mount point and the type of the file system that holds `path`.
fn file_system(root: &Root, path: &Path) -> Option<(String, String)> {
    let mounts = root.text(MOUNTS)?;
    let holding = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        path.starts_with(point).then(|| (point.to_owned(), kind.to_owned()))
    };
    // Of two at one place the later hides the earlier.
    mounts.lines().filter_map(holding).max_by_key(|(point, _)| point.len())
}

fn output_directory(doctor: &mut Doctor<'_>, directory: &Path) {
    let shown = directory.display().to_string();
    let Some(there) = existing(doctor.root, directory) else {
        return doctor.unknown("output.room", &shown, "the directory and its parents cannot be read");
    };
    match room(doctor.root, &there) {
        None => doctor.unknown("output.room", &shown, "the free space there is unknown"),
        Some((free, total)) => {
            let value = format!("{} of {} free for {shown}", size(free), size(total));
            if free >= LITTLE_ROOM {
                doctor.good("output.room", value, "statvfs");
            } else {
                let cost = "when it is full the output fails and accepted events are dropped with the reason storage_failed";
                let remedy = Remedy::advice("another `run.output`, or room");
                doctor.warn("output.room", value, "statvfs", cost, remedy);
            }
        }
    }
    match file_system(doctor.root, &there) {
        None => doctor.unknown("output.file_system", MOUNTS, "the file system of the directory is unknown"),
        Some((point, kind)) if kind == "tmpfs" || kind == "ramfs" => {
            let cost = "events are only in memory, and lost when the machine restarts";
            let remedy = Remedy::advice("a `run.output` on a disk");
            doctor.warn("output.file_system", format!("{kind} at {point}"), MOUNTS, cost, remedy);
        }
        Some((point, kind)) if REMOTE.contains(&kind.as_str()) => {
            let cost = "a write may wait for the network and a server, and delays its builder; `output.sync = \"fsync\"` \
                        waits each time";
            let remedy = Remedy::advice("write to a local disk, and copy closed files away");
            doctor.warn("output.file_system", format!("{kind} at {point}"), MOUNTS, cost, remedy);
        }
        Some((point, kind)) => doctor.good("output.file_system", format!("{kind} at {point}"), MOUNTS),
    }
}

fn shared_memory(doctor: &mut Doctor<'_>) {
    let path = Path::new("/dev/shm");
    let Some((free, total)) = room(doctor.root, path) else {
        return doctor.unknown("memory.shared", "/dev/shm", "processes could not share memory there");
    };
    let value = format!("{} of {} free in /dev/shm", size(free), size(total));
    let wanted = doctor.wanted.memory_bytes;
    if free >= wanted {
        return doctor.good("memory.shared", value, "statvfs");
    }
    let note = format!(
        "less than the {} of the configuration. Sheaf's own shared memory is not taken from there; that of libraries \
         (MPI, libfabric) may be: `mount -o remount,size=... /dev/shm`",
        size(wanted)
    );
    doctor.note("memory.shared", value, "statvfs", note);
}
