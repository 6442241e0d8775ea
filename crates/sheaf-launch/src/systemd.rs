//! systemd: units of run control on the first host, and of an agent on each other host.

use crate::placement::{self, Placement};
use crate::plan::{PRIVATE, PlannedFile};
use crate::{Launch, LaunchError, LaunchPlan, words};

/// Mode of units, which have no secrets.
const UNIT: u32 = 0o644;

/// The units, with names of what is filled in between `@`.
const TARGET: &str = include_str!("systemd/sheaf.target");
const CONTROL: &str = include_str!("systemd/sheaf-control.service");
const AGENT: &str = include_str!("systemd/sheaf-agent.service");

/// Restrictions that leave a service its memory, its interfaces and the directories of its data.
const RESTRICTIONS: &str = "NoNewPrivileges=yes\nRestrictSUIDSGID=yes\nLockPersonality=yes\n";

/// Further restrictions, which only the system's manager can make.
const SYSTEM_RESTRICTIONS: &str = "ProtectSystem=full\nProtectControlGroups=yes\nProtectKernelModules=yes\nProtectKernelLogs=yes\nProtectClock=yes\n";

/// Limits that only the system's manager can raise: locked memory, and the priority of real-time threads, below that of the kernel's network.
const SYSTEM_LIMITS: &str = "LimitMEMLOCK=infinity\nLimitRTPRIO=49\n";

/// Options of a launch by systemd.
#[derive(Clone, Debug, Default)]
pub struct SystemdOptions {
    /// Hosts, that of run control first; without any, those of the addresses of the nodes, or one host.
    pub hosts: Vec<String>,
    /// User of the services of the system; without it, the units are for the manager of a user.
    pub user: Option<String>,
    /// Address of the page of run control.
    pub page: String,
}

impl Launch {
    /// Plans units: a directory for each host, with everything that the host needs.
    ///
    /// # Errors
    /// If the configuration does not fit the hosts, or a text cannot be written into a unit.
    pub fn systemd(&self, options: &SystemdOptions) -> Result<LaunchPlan, LaunchError> {
        if let Some(flag) = self.run_flags.first() {
            return Err(LaunchError::Hosts(format!(
                "`{flag}` would have no effect: run control starts runs as the configuration says; write it there"
            )));
        }
        let hosts = match &*options.hosts {
            // Nodes that are known only from data have no addresses.
            [] => placement::hosts_of(&self.config).ok().flatten().unwrap_or_default(),
            hosts => hosts.to_vec(),
        };
        for host in &hosts {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            if host.is_empty() || host.starts_with('.') || !host.chars().all(is_plain) {
                return Err(LaunchError::odd("the host", host, "a host is like `daq1` or `10.20.0.2`"));
            }
        }
        let mut plan = LaunchPlan::default();
        if hosts.len() < 2 {
            let control = self.control(&self.file, "--processes ", options)?;
            plan.files.push(PlannedFile::text(self.path("sheaf-control.service"), UNIT, control));
            plan.files.push(PlannedFile::text(
                self.path("sheaf.target"),
                UNIT,
                target("sheaf-control.service", options),
            ));
            plan.notes = self.advice("this host", &self.directory, options);
            return Ok(plan);
        }
        let placement = Placement::new(self.for_hosts(), &hosts, self.port)?;
        let file = self.path("run.toml");
        let remark = "only the first host needs this file, and all need the key";
        plan.files.push(PlannedFile::text(file.clone(), PRIVATE, placement.text(remark)));
        plan.files.extend(self.key_file());
        for (index, host) in hosts.iter().enumerate() {
            let directory = self.path(host);
            let (name, unit) = match index {
                0 => ("sheaf-control.service", self.control(&file, "", options)?),
                _ => ("sheaf-agent.service", self.agent(&placement.agents[index], options)?),
            };
            plan.files.push(PlannedFile::text(format!("{directory}/{name}"), UNIT, unit));
            plan.files.push(PlannedFile::text(
                format!("{directory}/sheaf.target"),
                UNIT,
                target(name, options),
            ));
            plan.notes.extend(self.advice(host, &directory, options));
        }
        plan.notes
            .push(format!("every host needs {} with mode 0600, of the user of its services", self.key()));
        Ok(plan)
    }

    fn control(&self, file: &str, more: &str, options: &SystemdOptions) -> Result<String, LaunchError> {
        words::check("the address of the page", &options.page)?;
        let fill = [
            ("@FILE@", words::unit("the path of the configuration", file)?),
            ("@MORE@", more.to_owned()),
            ("@PAGE@", words::unit("the address of the page", &options.page)?),
        ];
        self.unit(CONTROL, &fill, options)
    }

    fn agent(&self, address: &str, options: &SystemdOptions) -> Result<String, LaunchError> {
        let key = words::unit("the path of the key", &self.key())?;
        self.unit(AGENT, &[("@KEY@", key), ("@ADDRESS@", address.to_owned())], options)
    }

    fn unit(
        &self,
        text: &str,
        fill: &[(&str, String)],
        options: &SystemdOptions,
    ) -> Result<String, LaunchError> {
        let is_word =
            |user: &str| user.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
        let user = match &options.user {
            Some(user) if user.is_empty() || !is_word(user) => {
                return Err(LaunchError::odd("the user", user, "a user is like `daq`"));
            }
            Some(user) => format!("User={user}\n"),
            None => String::new(),
        };
        let only_system = |text: &str| options.user.as_ref().map_or("", |_| text).to_owned();
        let common = [
            ("@PROGRAM@", words::unit("the path of the program", &self.program)?),
            ("@PLACE@", words::unit_path("the working directory", &self.place)?),
            ("@USER@\n", user),
            ("@LIMITS@\n", only_system(SYSTEM_LIMITS)),
            ("@RESTRICTIONS@\n", RESTRICTIONS.to_owned() + &only_system(SYSTEM_RESTRICTIONS)),
        ];
        let fill: Vec<_> = fill.iter().cloned().chain(common).collect();
        Ok(words::filled(text, &fill))
    }

    fn advice(&self, host: &str, directory: &str, options: &SystemdOptions) -> Vec<String> {
        let directory = words::quoted(directory);
        let (place, manager) = match &options.user {
            Some(_) => ("/etc/systemd/system/", "systemctl"),
            None => ("~/.config/systemd/user/", "systemctl --user"),
        };
        vec![format!(
            "on {host}: cp {directory}/sheaf* {place} && {manager} daemon-reload && {manager} enable --now sheaf.target"
        )]
    }
}

fn target(service: &str, options: &SystemdOptions) -> String {
    let wanted = options.user.as_ref().map_or("default.target", |_| "multi-user.target");
    words::filled(TARGET, &[("@SERVICE@", service.to_owned()), ("@WANTED_BY@", wanted.to_owned())])
}
