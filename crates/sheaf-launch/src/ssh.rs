//! Hosts that are reached by ssh: a script that starts agents there and the run here, and one that ends agents that are left.

use crate::placement::{self, Placement};
use crate::plan::{PRIVATE, PlannedCommand, PlannedFile, SCRIPT};
use crate::{Launch, LaunchError, LaunchPlan, words};

/// The script, with names of what is filled in between `@`.
const START_TEXT: &str = include_str!("ssh.sh");

/// The script that ends agents, with names of what is filled in.
const END_TEXT: &str = include_str!("ssh_end.sh");

/// A host that is reached by ssh.
struct SshHost {
    /// Name for ssh: `host`, or `user@host`.
    target: String,
    /// Name in addresses.
    host: String,
}

impl SshHost {
    fn new(target: &str) -> Result<Self, LaunchError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let (user, host) = target.split_once('@').unwrap_or(("user", target));
        let is_word = |word: &str| !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain);
        match is_word(user) && is_word(host) {
            true => Ok(Self { target: target.to_owned(), host: host.to_owned() }),
            false => {
                Err(LaunchError::odd("the host", target, "a host is like `daq1`, `10.20.0.2` or `user@daq1`"))
            }
        }
    }
}

impl Launch {
    /// Plans a run on this host, the first of `hosts`, and agents on the others. Without hosts, they are those of the addresses of the nodes.
    ///
    /// # Errors
    /// If the configuration does not fit the hosts, or a path or a host cannot be written into the script.
    pub fn ssh(&self, hosts: &[String]) -> Result<LaunchPlan, LaunchError> {
        let hosts = self.named_hosts(hosts)?;
        let hosts = hosts.iter().map(|host| SshHost::new(host)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<_> = hosts.iter().map(|host| host.host.clone()).collect();
        let placement = Placement::new(self.for_hosts(), &names, self.port)?;
        let quoted = |path: &str| words::shell("the directory of the launch", path);
        let remark = "nodes with `agent` are started by agents, which start.sh starts";
        let mut files = vec![PlannedFile::text(self.path("run.toml"), PRIVATE, placement.text(remark))];
        files.extend(self.key_file());
        let fill = [
            (
                "@PLACEMENT@\n",
                placement.describe(|place| match place {
                    0 => format!("{}, this host", names[0]),
                    other => names[other].clone(),
                }),
            ),
            ("@PROGRAM@", words::shell("the path of the program", &self.program)?),
            ("@DIRECTORY@", quoted(&self.directory)?),
            ("@PLACE@", words::shell("the working directory", &self.place)?),
            ("@KEY@", words::shell("the path of the key", &self.key())?),
            ("@AGENTS@\n", self.agents(&hosts, &placement)?),
            ("@TAKE_RUN@\n", self.take_run("\"$directory/run.toml\"")?),
        ];
        let (start, end) = (self.path("start.sh"), self.path("end-agents.sh"));
        files.push(PlannedFile::text(end.clone(), SCRIPT, words::filled(END_TEXT, &fill)));
        files.push(PlannedFile::text(start.clone(), SCRIPT, words::filled(START_TEXT, &fill)));
        let commands =
            vec![PlannedCommand::new("start the agents and the run, which Ctrl-C ends", &["bash", &start])];
        let notes =
            vec![format!("`bash {}` ends agents that are left if this host dies", words::quoted(&end))];
        Ok(LaunchPlan { files, commands, notes })
    }

    /// Returns these hosts, or else those that the addresses of the nodes name.
    pub(crate) fn named_hosts(&self, hosts: &[String]) -> Result<Vec<String>, LaunchError> {
        if !hosts.is_empty() {
            return Ok(hosts.to_vec());
        }
        placement::hosts_of(&self.config)?.ok_or_else(|| {
            LaunchError::Hosts(
                "the configuration does not say on which hosts its nodes are: use --hosts THIS,OTHER,..."
                    .into(),
            )
        })
    }

    /// Returns a line for each host but the first: how its agent is started.
    fn agents(&self, hosts: &[SshHost], placement: &Placement) -> Result<String, LaunchError> {
        let mut text = String::new();
        for (host, address) in hosts.iter().zip(&placement.agents).skip(1) {
            let remote = self.remote(&host.host, address)?;
            text.push_str(&format!("start_agent {} {}\n", host.target, words::quoted(&remote)));
        }
        Ok(text)
    }

    /// Returns what the shell of another host runs: it takes the key from its standard input, starts the agent and prints its process.
    fn remote(&self, host: &str, address: &str) -> Result<String, LaunchError> {
        let key = self.key();
        let word = |text: &str| words::shell("the path", text);
        let (directory, place) = (word(&self.directory)?, word(&self.place)?);
        let (key, draft) = (word(&key)?, word(&format!("{key}.{host}"))?);
        let (program, log) = (word(&self.program)?, word(&self.path(&format!("agent-{host}.log")))?);
        Ok(format!(
            "mkdir -p {directory} {place} && (umask 077; cat > {draft}) && mv {draft} {key} && cd {place} && \
             {{ setsid {program} agent --key {key} --listen {address} < /dev/null > {log} 2>&1 & echo $!; }}"
        ))
    }
}
