//! Slurm: one script, one allocation, a step for each further host.

use crate::placement::{self, Placement};
use crate::plan::{PRIVATE, PlannedCommand, PlannedFile, SCRIPT};
use crate::{Launch, LaunchError, LaunchPlan, words};

/// Stands for the address of a host that Slurm will choose.
const HOST: &str = "sheaf-host-";

/// The script, with names of what is filled in between `@`.
const SCRIPT_TEXT: &str = include_str!("slurm.sh");

/// Options of a launch by Slurm.
#[derive(Clone, Debug, Default)]
pub struct SlurmOptions {
    /// Number of hosts; without it, as many as the addresses of the configuration name.
    pub hosts: Option<usize>,
    /// Time limit of the job, as `--time` of sbatch takes it.
    pub time: Option<String>,
    /// Further options of sbatch, each one word: `--partition=daq`.
    pub sbatch: Vec<String>,
    /// Time before that limit at which the run is ended, in seconds.
    pub ends_before_s: u32,
}

impl Launch {
    /// Plans a job of Slurm.
    ///
    /// # Errors
    /// If the configuration does not fit the hosts, or a path cannot be written into the script.
    pub fn slurm(&self, options: &SlurmOptions) -> Result<LaunchPlan, LaunchError> {
        let hosts = match options.hosts {
            Some(hosts) => hosts.max(1),
            None => placement::hosts_of(&self.config)?.map(|hosts| hosts.len()).ok_or_else(|| {
                LaunchError::Hosts(
                    "the configuration does not say on how many hosts its nodes are: use --hosts N".into(),
                )
            })?,
        };
        let names: Vec<_> = (0..hosts).map(|index| format!("{HOST}{index}")).collect();
        let placement = Placement::new(self.for_hosts(), &names, self.port)?;
        let script = self.script(options, &placement)?;
        let path = self.path("job.sh");
        let mut files = vec![PlannedFile::text(
            self.path("run.toml"),
            PRIVATE,
            placement.text("addresses are filled in by job.sh, which knows the hosts"),
        )];
        files.extend(self.key_file());
        files.push(PlannedFile::text(path.clone(), SCRIPT, script));
        let commands = vec![PlannedCommand::new("submit the job", &["sbatch", &path])];
        let notes = vec![
            "`scancel --batch --signal=TERM JOB` ends the run in good order; `scancel JOB` ends it at once"
                .into(),
        ];
        Ok(LaunchPlan { files, commands, notes })
    }

    fn script(&self, options: &SlurmOptions, placement: &Placement) -> Result<String, LaunchError> {
        let mut more = String::new();
        let time = options.time.iter().map(|time| format!("--time={time}"));
        for option in time.chain(options.sbatch.iter().cloned()) {
            words::check("the option of sbatch", &option)?;
            if !option.starts_with('-') || option.contains('#') {
                return Err(LaunchError::odd(
                    "the option of sbatch",
                    &option,
                    "it must be like `--partition=daq`",
                ));
            }
            more.push_str(&format!("#SBATCH {option}\n"));
        }
        let hosts = placement.nodes.len();
        let log = format!("{}/job-%j.log", sbatch_path("the directory of the launch", &self.directory)?);
        let fill = [
            ("@HOSTS@", hosts.to_string()),
            ("@SIGNAL_S@", options.ends_before_s.to_string()),
            ("@PLACE@", words::sbatch("the working directory", &self.place)?),
            ("@LOG@", format!("\"{log}\"")),
            ("@MORE_OPTIONS@\n", more),
            (
                "@PLACEMENT@\n",
                placement.describe(|place| match place {
                    0 => "host 0, which runs this script".to_owned(),
                    other => format!("host {other}"),
                }),
            ),
            ("@PROGRAM@", words::shell("the path of the program", &self.program)?),
            ("@DIRECTORY@", words::shell("the directory of the launch", &self.directory)?),
            ("@KEY@", words::shell("the path of the key", &self.key())?),
            ("@PORT@", self.port.to_string()),
            ("@HOST@", HOST.to_owned()),
            ("@TAKE_RUN@\n", self.take_run("\"$configuration\"")?),
        ];
        Ok(words::filled(SCRIPT_TEXT, &fill))
    }
}

/// Returns a path that `sbatch` takes as it is, without its quotes.
fn sbatch_path<'a>(what: &'static str, text: &'a str) -> Result<&'a str, LaunchError> {
    words::sbatch(what, text).map(|_| text)
}
