//! Calls of the operating system for which there is no safe wrapper: real-time scheduling, NUMA policies, the clock's
//! discipline, handlers of signals.
#![allow(unsafe_code, reason = "the C library's interface; each call with its argument")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Takes back what libraries do with signals when they are loaded: those of PSM, which libfabric brings along where it has it,
/// leave the process at once, with status 1, on Ctrl-C and on termination. Signals that are ignored, as `nohup` wants, stay
/// so; those that the language's runtime handles are left alone. To be called first in `main`: what the program sets later
/// counts.
///
/// # Errors
/// None that a Linux would give: the signals exist and can be handled.
pub fn forget_signal_handlers() -> io::Result<()> {
    for signal in
        [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGABRT, libc::SIGILL, libc::SIGFPE]
    {
        // SAFETY: `sigaction` is a struct of integers and an optional pointer, for which all zeros is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes to `action`, which outlives it, and changes nothing.
        check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) })?;
        if action.sa_sigaction == libc::SIG_DFL || action.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        action.sa_sigaction = libc::SIG_DFL;
        action.sa_flags = 0;
        // SAFETY: the call reads `action`, which outlives it; the default action has no code that could be unsound.
        check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    }
    Ok(())
}

/// Has this process ignore SIGUSR1, by which the process that makes runs is asked for the next: a signal to all processes of a
/// program of that name must not end the others.
///
/// # Errors
/// None that a Linux would give: the signal exists and can be ignored.
pub fn ignore_next_run_signal() -> io::Result<()> {
    // SAFETY: to ignore a signal takes no code of ours that could be unsound.
    let before = unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the process that `command` starts ignore SIGUSR1 from its first instruction on, before its own `main` could.
pub fn ignoring_next_run_signal(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only `signal` is called, which is safe to call from handlers of signals, and so there.
    unsafe { command.pre_exec(ignore_next_run_signal) }
}

/// Has the process that `command` starts handle SIGUSR1 as if Sheaf had not ignored it, and be killed when the calling thread ends.
pub fn dying_with_this_thread(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only `signal` and `prctl` are called, which are single calls of the kernel and allocate nothing.
    unsafe {
        command.pre_exec(|| {
            if libc::signal(libc::SIGUSR1, libc::SIG_DFL) == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))
        })
    }
}

// The C library musl refuses to pass on `sched_setscheduler` and its like, which for threads differ from POSIX. The kernel's own calls
// are the same everywhere; all they have of `sched_param` is the priority.

/// Real-time scheduling of this thread: first in, first out, at `priority` (1 to 99); threads that it starts are ordinary.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    let priority = libc::c_int::from(priority);
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 names the calling thread; `priority` outlives the call, which only reads it.
    check_long(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) })
}

/// The real-time priority of this thread; `None` where it is scheduled in another way.
pub(crate) fn fifo_priority() -> io::Result<Option<u8>> {
    let mut priority: libc::c_int = 0;
    // SAFETY: 0 names the calling thread; there is nothing else to get wrong.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    check_long(policy)?;
    // SAFETY: `priority` outlives the call, which only writes to it.
    check_long(unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) })?;
    let is_fifo =
        policy & !libc::c_long::from(libc::SCHED_RESET_ON_FORK) == libc::c_long::from(libc::SCHED_FIFO);
    Ok(u8::try_from(priority).ok().filter(|_| is_fifo))
}

/// Placement of memory among NUMA nodes: the modes of `set_mempolicy(2)`.
pub(crate) mod mode {
    pub(crate) const BIND: i32 = libc::MPOL_BIND;
    pub(crate) const INTERLEAVE: i32 = libc::MPOL_INTERLEAVE;
    pub(crate) const LOCAL: i32 = libc::MPOL_LOCAL;
}

/// Bits of a node mask: more nodes than any kernel is built for.
const MASK_BITS: usize = 1024;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
type Mask = [libc::c_ulong; MASK_BITS / WORD_BITS];

/// Sets the policy by which this thread gets memory from now on; nodes from 1024 on do not exist.
pub(crate) fn set_memory_policy(mode: i32, nodes: &crate::CpuList) -> io::Result<()> {
    let mut mask: Mask = [0; MASK_BITS / WORD_BITS];
    for node in nodes.iter().filter(|node| *node < MASK_BITS) {
        mask[node / WORD_BITS] |= 1 << (node % WORD_BITS);
    }
    let mask = if nodes.is_empty() { std::ptr::null() } else { mask.as_ptr() };
    // SAFETY: the kernel reads `MASK_BITS` bits behind `mask`, which is null or an array of that many that lives on
    // this function's stack until it returns (the shadowing binding is only the pointer to it).
    check_long(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, MASK_BITS as libc::c_ulong) })
}

/// The policy by which this thread gets memory: the mode, and the nodes.
pub(crate) fn memory_policy() -> io::Result<(i32, crate::CpuList)> {
    let mut mode: libc::c_int = 0;
    let mut mask: Mask = [0; MASK_BITS / WORD_BITS];
    let bits = MASK_BITS as libc::c_ulong;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: the kernel writes one `int` behind the first pointer and at most `bits` bits behind the second; both
    // outlive the call.
    check_long(unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask.as_mut_ptr(), bits, nothing, 0_u64)
    })?;
    let is_set = |node: &usize| mask[node / WORD_BITS] >> (node % WORD_BITS) & 1 == 1;
    Ok((mode, (0..MASK_BITS).filter(is_set).collect()))
}

/// State of the kernel's clock discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Whether something keeps it in step with a reference.
    pub synchronised: bool,
    /// Maximum error that the clock's synchronization daemon reports, in microseconds.
    pub max_error_us: u64,
    /// The error that is estimated, in microseconds.
    pub estimated_error_us: u64,
}

/// Reads the clock's discipline; changes nothing.
pub(crate) fn clock_state() -> io::Result<ClockState> {
    // SAFETY: `timex` is a struct of integers, for which all zeros is a value; modes of 0 asks only to read.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to `state`, which outlives it.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    check(answer)?;
    let microseconds = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    Ok(ClockState {
        synchronised: answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
        max_error_us: microseconds(state.maxerror),
        estimated_error_us: microseconds(state.esterror),
    })
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn check_long(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
