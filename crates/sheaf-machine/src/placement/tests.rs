#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where its arrangement fails, and says why it skips"
)]

use super::*;
use rustix::io::Errno;
use std::thread;

/// Runs `body` on a thread of its own, so that no other test is moved.
fn on_a_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(body).join().unwrap()
}

fn on(cpus: impl IntoIterator<Item = usize>) -> Placement {
    Placement { cpus: cpus.into_iter().collect(), ..Placement::default() }
}

#[test]
fn a_thread_is_where_it_was_put() {
    for cpu in current_cpus().unwrap().iter().take(4) {
        let (errors, cpus, runs_on) = on_a_thread(move || {
            let errors = on([cpu]).apply();
            (errors, current_cpus().unwrap(), rustix::thread::sched_getcpu())
        });
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(cpus, [cpu].into_iter().collect());
        assert_eq!(runs_on, cpu);
    }
}

#[test]
fn a_placement_that_asks_for_nothing_changes_nothing() {
    let before = (current_cpus().unwrap(), current_priority().unwrap());
    let after = on_a_thread(|| {
        assert!(Placement::default().is_empty());
        assert!(Placement::default().apply().is_empty());
        (current_cpus().unwrap(), current_priority().unwrap())
    });
    assert_eq!(before, after);
}

#[test]
fn processors_that_are_not_there_are_refused_with_those_that_are() {
    let online = Root::system().cpus_online();
    let absent = online.iter().last().unwrap() + 1000;
    let (errors, cpus) = on_a_thread(move || (on([0, absent]).apply(), current_cpus().unwrap()));
    let [PlacementError::NoSuchProcessor { missing, online: told }] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!((missing.to_string(), told), (absent.to_string(), &online));
    assert_eq!(cpus, current_cpus().unwrap(), "the thread stays where it was");
    assert_eq!(errors[0].to_string(), format!("there is no processor {absent}; this machine has {online}"));
}

#[test]
fn a_priority_is_had_or_refused_with_what_would_allow_it() {
    let wanted = Placement { priority: Some(10), ..Placement::default() };
    let (errors, priority) = on_a_thread(move || (wanted.apply(), current_priority().unwrap()));
    match errors.as_slice() {
        [] => assert_eq!(priority, Some(10)),
        [PlacementError::Priority { priority: 10, source, .. }] => {
            assert_eq!(source.raw_os_error(), Some(Errno::PERM.raw_os_error()));
            assert_eq!(priority, None);
            assert!(errors[0].to_string().contains("RLIMIT_RTPRIO"), "{}", errors[0]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_of_an_urgent_thread_are_ordinary() {
    let wanted = Placement { priority: Some(10), ..Placement::default() };
    on_a_thread(move || {
        if !wanted.apply().is_empty() {
            eprintln!("skipped: this process may not have a real-time priority");
            return;
        }
        assert_eq!(on_a_thread(|| current_priority().unwrap()), None);
    });
}

#[test]
fn a_memory_policy_is_read_back() {
    if current_memory().is_err() {
        eprintln!("skipped: this kernel, or this container, has no NUMA policies");
        return;
    }
    for policy in [MemoryPolicy::Local, MemoryPolicy::Bind, MemoryPolicy::Interleave] {
        let (errors, now) = on_a_thread(move || {
            let errors = Placement { memory: policy, ..Placement::default() }.apply();
            (errors, current_memory().unwrap())
        });
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(now.0, policy);
        let root = Root::system();
        let nodes = match policy {
            MemoryPolicy::Bind => root.nodes_of(&current_cpus().unwrap()),
            MemoryPolicy::Interleave => root.nodes_with_memory(),
            _ => CpuList::default(),
        };
        assert_eq!(now.1, nodes);
    }
}
