//! Jobs of Slurm.

use super::{assert_hosts, assert_shell_takes, launch, text_of};
use crate::words::filled;
use crate::{Launch, SlurmOptions};
use proptest::prelude::*;

const SYSTEM: &str = "[readout]\ncount = 3\n[builder]\ncount = 2\n";

fn options(hosts: usize) -> SlurmOptions {
    SlurmOptions { hosts: Some(hosts), ends_before_s: 120, ..SlurmOptions::default() }
}

/// Options of sbatch in a script.
fn sbatch(script: &str) -> Vec<&str> {
    script.lines().filter_map(|line| line.strip_prefix("#SBATCH ")).collect()
}

#[test]
fn nodes_are_dealt_out_to_the_hosts_of_an_allocation() {
    let plan = launch(SYSTEM).slurm(&options(3)).expect("it fits");
    assert_hosts(
        &plan,
        &[
            ("evm", "sheaf-host-0:7401", None),
            ("ru0", "sheaf-host-0:7402", None),
            ("ru1", "sheaf-host-1:7403", Some("sheaf-host-1:7400")),
            ("ru2", "sheaf-host-2:7404", Some("sheaf-host-2:7400")),
            ("bu0", "sheaf-host-0:7405", None),
            ("bu1", "sheaf-host-1:7406", Some("sheaf-host-1:7400")),
        ],
    );
    let files: Vec<_> = plan.files.iter().map(|file| (&*file.path, file.mode)).collect();
    assert_eq!(
        files,
        [
            ("/data/launch/run.toml", 0o600),
            ("/data/launch/agents.key", 0o600),
            ("/data/launch/job.sh", 0o755)
        ]
    );
    assert_eq!(plan.commands.len(), 1);
    assert_eq!(plan.commands[0].line(), "sbatch /data/launch/job.sh");
}

#[test]
fn a_job_survives_hosts_and_ends_its_run_before_its_limit() {
    let more = SlurmOptions {
        time: Some("01:00:00".into()),
        sbatch: vec!["--partition=daq".into(), "-A physics".into()],
        ..options(3)
    };
    let plan = launch(SYSTEM).slurm(&more).expect("it fits");
    let script = text_of(&plan, "/data/launch/job.sh");
    assert_eq!(
        sbatch(script),
        [
            "--job-name=sheaf",
            "--nodes=3",
            "--no-kill",
            "--exclusive",
            "--mem=0",
            "--export=NONE",
            "--signal=B:TERM@120",
            "--chdir=\"/data\"",
            "--output=\"/data/launch/job-%j.log\"",
            "--time=01:00:00",
            "--partition=daq",
            "-A physics",
        ]
    );
    for part in [
        "--no-kill --kill-on-bad-exit=0 --wait=0 --export=NONE",
        "#   host 0, which runs this script: evm, ru0, bu0\n#   host 1: ru1, bu1\n#   host 2: ru2\n",
        "\nsheaf=/opt/sheaf/bin/sheaf\n",
        "s/sheaf-host-$index:/",
        "\"$sheaf\" run \"$configuration\" &\n",
    ] {
        assert!(script.contains(part), "{part} is not in\n{script}");
    }
    assert!(!script.contains("@H") && !script.contains("@P"), "something is not filled in:\n{script}");
    assert_shell_takes(script);
}

#[test]
fn nodes_with_addresses_on_one_host_stay_together() {
    let node = |name: &str, role: &str, host: &str| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"{host}:7000\"\n")
    };
    let text = [
        node("evm", "manager", "daq1"),
        node("ru0", "readout", "daq2").replace("7000", "7001"),
        node("bu0", "builder", "daq1").replace("7000", "7002"),
        node("bu1", "builder", "daq2").replace("7000", "7003"),
    ]
    .concat();
    let plan = launch(&text).slurm(&SlurmOptions { ends_before_s: 120, ..SlurmOptions::default() });
    let script = plan.expect("it fits");
    let script = text_of(&script, "/data/launch/job.sh");
    assert!(script.contains("runs this script: evm, bu0\n#   host 1: ru0, bu1\n"), "{script}");
    let error = launch(&text).slurm(&options(1)).expect_err("there are two hosts").to_string();
    assert_eq!(error, "the addresses of the nodes are on 2 hosts (daq1, daq2), but there are only 1");
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_do() {
    let refused = |launch: Launch, options: &SlurmOptions| {
        launch.slurm(options).expect_err("it does not fit").to_string()
    };
    assert!(refused(launch(SYSTEM), &options(4)).contains("host 3 of 4 would have no node: use fewer hosts"));
    let none = SlurmOptions { ends_before_s: 120, ..SlurmOptions::default() };
    assert!(refused(launch(SYSTEM), &none).contains("use --hosts N"));
    let high = Launch { port: 65_532, ..launch(SYSTEM) };
    assert!(refused(high, &options(2)).contains("choose a lower first port"));
    let odd = Launch { place: "/data/100%".into(), ..launch(SYSTEM) };
    assert!(refused(odd, &options(2)).contains("the working directory `/data/100%` cannot be written"));
    let comment = SlurmOptions { sbatch: vec!["--comment=#1".into()], ..options(2) };
    assert!(refused(launch(SYSTEM), &comment).contains("the option of sbatch `--comment=#1`"));
}

#[test]
fn a_key_of_the_configuration_is_used() {
    let mut launch = launch(SYSTEM);
    launch.config.agents.key_file = Some("keys/agents.key".into());
    let plan = launch.slurm(&options(2)).expect("it fits");
    assert!(plan.files.iter().all(|file| !file.path.ends_with("agents.key")));
    assert!(text_of(&plan, "/data/launch/job.sh").contains("\nkey=/data/keys/agents.key\n"));
}

#[test]
fn what_is_filled_in_is_not_looked_at_again() {
    let fill = [("@A@", "@B@".to_owned()), ("@B@", "b".to_owned())];
    assert_eq!(filled("@A@ @B@ @A@", &fill), "@B@ b @B@");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn paths_are_written_into_a_script_that_a_shell_takes_or_refused(
        directory in "/[ -~é]{0,12}", program in any::<String>(), flag in any::<String>()
    ) {
        let launch = Launch {
            directory: directory.clone(),
            program: program.clone(),
            run_flags: vec![flag.clone()],
            ..launch(SYSTEM)
        };
        match launch.slurm(&options(2)) {
            Ok(plan) => {
                let script = text_of(&plan, &format!("{directory}/job.sh"));
                assert_shell_takes(script);
                prop_assert!(sbatch(script).len() == 9);
            }
            Err(error) => {
                let is_odd = |letter: char| letter.is_control() || "%\"'\\".contains(letter);
                let is_refused = directory.contains(is_odd) || (program + &flag).contains(char::is_control);
                prop_assert!(is_refused, "{}", error);
            }
        }
    }
}
