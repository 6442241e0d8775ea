use super::*;

#[test]
fn a_namespace_tells_whose_it_is() {
    for owner in
        [Owner::Process { pid: 71, start: 99 }, Owner::Kept("my-lab_2".into()), Owner::this_process()]
    {
        assert_eq!(parse(&owner.namespace("ru0")), Some((owner.clone(), "ru0")));
    }
}

#[test]
fn what_no_lab_has_named_is_of_nobody() {
    for name in [
        "sheaf",
        "sheaf-lab",
        "sheaf-lab.kept-a",
        "sheaf-lab.kept-a b.x",
        "sheaf-lab.process-1.x",
        "sheaf-lab2.kept-a.x",
        "cni-1",
        "sheaf-lab.kept-.x",
    ] {
        assert_eq!(parse(name), None, "{name}");
    }
}

#[test]
fn this_process_lives_and_one_with_its_number_and_another_start_does_not() {
    let Owner::Process { pid, start } = Owner::this_process() else { panic!("a process") };
    assert!(!Owner::this_process().is_dead());
    assert!(Owner::Process { pid, start: start + 1 }.is_dead());
    assert!(Owner::Process { pid: u32::MAX, start }.is_dead());
    assert!(!Owner::Kept("a".into()).is_dead());
}

#[test]
fn labs_are_found_by_the_names_of_their_namespaces_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let owner = Owner::Kept("a".into());
    for name in [owner.namespace("ru0"), owner.namespace("r0"), "other".into()] {
        std::fs::write(directory.path().join(name), "").expect("a file");
    }
    let labs = labs_in(directory.path());
    assert_eq!(labs.len(), 1);
    assert_eq!(labs[&owner].iter().map(String::as_str).collect::<Vec<_>>(), ["r0", "ru0"]);
}

#[test]
fn a_lab_that_two_remove_at_the_same_time_is_removed_without_an_error() {
    let missing = crate::tools::missing();
    if !missing.is_empty() {
        println!("skipped: {}", missing.join("; "));
        return;
    }
    for turn in 0..4 {
        let owner = Owner::Kept(format!("test-{}-{turn}", std::process::id()));
        let namespaces: Vec<_> = (0..8).map(|host| owner.namespace(&format!("h{host}"))).collect();
        make_namespaces(&namespaces).expect("they can be made");
        std::thread::scope(|scope| {
            let removals: Vec<_> = (0..3).map(|_| scope.spawn(|| remove(&owner))).collect();
            for removal in removals {
                removal.join().expect("no panic").expect("another one may have removed it");
            }
        });
        assert!(!labs().contains_key(&owner));
    }
}
