//! Kubernetes: a chart with run control, and a set of agents for each role.

use crate::placement::Placement;
use crate::plan::{PRIVATE, PlannedFile};
use crate::{Launch, LaunchError, LaunchPlan, words};
use sheaf_config::NodeConfig;
use sheaf_wire::Role;

/// Mode of the files of a chart.
const CHART: u32 = 0o644;

/// Path of the key in all pods.
const KEY: &str = "/run/sheaf/agents.key";

/// Time beyond the longest stop of a run after which a pod is killed, and that of agents, which close files, in seconds.
const GRACE_S: u64 = 120;

/// Options of a launch by Kubernetes.
#[derive(Clone, Debug, Default)]
pub struct KubernetesOptions {
    /// Image with `sheaf` and a shell.
    pub image: String,
    /// Name of the `PersistentVolumeClaim` for data.
    pub claim: String,
    /// Version of the chart: that of Sheaf.
    pub version: String,
}

/// A set of pods.
struct PodSet {
    role: &'static str,
    purpose: &'static str,
    replicas: usize,
    /// Number of pods that may be evicted at a time.
    unavailable: u32,
    grace_s: u64,
    /// The command of a pod, as YAML.
    command: String,
    /// Further lines of the container, and further volumes.
    more: (&'static str, &'static str),
}

impl Launch {
    /// Plans a chart for Helm.
    ///
    /// # Errors
    /// If the configuration does not work on several hosts, or a text cannot be written into the chart.
    pub fn kubernetes(&self, options: &KubernetesOptions) -> Result<LaunchPlan, LaunchError> {
        let mut config = self.for_hosts();
        config.agents.key_file = Some(KEY.into());
        let mut nodes = config.nodes()?;
        let hosts: Vec<_> = nodes.iter().map(host).collect();
        for (node, host) in nodes.iter_mut().zip(&hosts) {
            node.address = Some(format!("{host}:{}", self.port.saturating_add(1)));
        }
        config.set_nodes(&nodes);
        let placement = Placement::new(config, &hosts, self.port)?;
        let sets = self.sets(&nodes);
        let chart = |name: &str| self.path(&format!("chart/{name}"));
        let plain = |name: &str, text: String| PlannedFile::text(chart(name), CHART, text);
        let fill = [
            ("@IMAGE@", words::yaml("the image", &options.image)?),
            ("@CLAIM@", words::yaml("the claim", &options.claim)?),
            ("@VERSION@", options.version.clone()),
        ];
        let mut values = words::filled(include_str!("kubernetes/values.yaml"), &fill);
        let mut files =
            vec![plain("Chart.yaml", words::filled(include_str!("kubernetes/Chart.yaml"), &fill))];
        for set in &sets {
            let role = [("@ROLE@", set.role.to_owned())];
            values.push_str(&words::filled(include_str!("kubernetes/role_values.yaml"), &role));
            files.push(plain(&format!("templates/{}.yaml", set.role), set.text()));
        }
        files.push(plain("values.yaml", values));
        files.push(plain("templates/config.yaml", include_str!("kubernetes/config.yaml").to_owned()));
        let remark = "pods have the names of their sets";
        files.push(PlannedFile::text(chart("run.toml"), PRIVATE, placement.text(remark)));
        files.extend(self.key_file());
        let (key, directory) = (words::quoted(&self.key()), words::quoted(&chart("")));
        let notes = vec![
            format!("once: kubectl create secret generic sheaf-agents --from-file=agents.key={key}"),
            format!("then: helm upgrade --install sheaf {directory}"),
            "the page: kubectl port-forward sheaf-control-0 7070".into(),
        ];
        Ok(LaunchPlan { files, notes, ..LaunchPlan::default() })
    }

    fn sets(&self, nodes: &[NodeConfig]) -> Vec<PodSet> {
        let agents = |role: Role, unavailable: u32, purpose: &'static str| PodSet {
            role: role_name(role),
            purpose,
            replicas: nodes.iter().filter(|node| node.id.role == role).count(),
            unavailable,
            grace_s: GRACE_S,
            command: format!("[sheaf, agent, --key, {KEY}, --listen, \"0.0.0.0:{}\"]", self.port),
            more: ("", ""),
        };
        let control = PodSet {
            role: role_name(Role::Manager),
            purpose: "run control, and the event manager of its runs",
            replicas: 1,
            unavailable: 0,
            grace_s: self.config.control.stop_timeout.0 / 1_000_000_000 + GRACE_S,
            command: "[sheaf, serve, /etc/sheaf/run.toml, --page, \"127.0.0.1:7070\", --directory, control]"
                .into(),
            more: (
                "            - {name: config, mountPath: /etc/sheaf, readOnly: true}\n          \
                   # The end of the pod would kill a run.\n          \
                   lifecycle: {preStop: {exec: {command: [sheaf, ctl, --directory, control, stop]}}}\n",
                "        - name: config\n          configMap: {name: sheaf-config}\n",
            ),
        };
        let sets = [
            control,
            agents(Role::Readout, 0, "agents that start readout units"),
            agents(Role::Builder, 1, "agents that start builder units"),
            agents(Role::Output, 0, "agents that start output nodes"),
            agents(Role::Mirror, 0, "agents that start mirrors of readout units"),
        ];
        sets.into_iter().filter(|set| set.replicas > 0).collect()
    }
}

impl PodSet {
    /// Returns the file of the set in the chart.
    fn text(&self) -> String {
        let fill = [
            ("@ROLE@", self.role.to_owned()),
            ("@PURPOSE@", self.purpose.to_owned()),
            ("@REPLICAS@", self.replicas.to_string()),
            ("@UNAVAILABLE@", self.unavailable.to_string()),
            ("@GRACE_S@", self.grace_s.to_string()),
            ("@COMMAND@", self.command.clone()),
        ];
        let (container, volumes) = self.more;
        let set = [include_str!("kubernetes/set.yaml"), include_str!("kubernetes/pod.yaml")].concat();
        [&words::filled(&set, &fill), container, include_str!("kubernetes/volumes.yaml"), volumes].concat()
    }
}

/// Returns the name of the set of pods that has the nodes of a role.
fn role_name(role: Role) -> &'static str {
    match role {
        Role::Manager => "control",
        Role::Readout => "readout",
        Role::Builder => "builder",
        Role::Output => "output",
        Role::Mirror => "mirror",
    }
}

/// Returns the name at which other pods reach that of a node.
fn host(node: &NodeConfig) -> String {
    let role = role_name(node.id.role);
    format!("sheaf-{role}-{}.sheaf-{role}", node.id.index)
}
