//! Alarms of the run, as `sheaf ctl status` and `sheaf top` show them.

use serde_json::Value;

/// Returns a line for each alarm, and its remedy.
pub(super) fn describe(alarms: &Value) -> String {
    let mut lines = String::new();
    for alarm in alarms.as_array().into_iter().flatten() {
        let text = |name: &str| alarm[name].as_str().unwrap_or_default().to_owned();
        lines += &format!("alarm     {}: {}\n          {}\n", text("severity"), text("text"), text("remedy"));
        let folded = folded_under(alarm);
        if !folded.is_empty() {
            lines += &format!("          stands for {}\n", folded.join(", "));
        }
    }
    lines
}

/// Returns the nodes and hosts whose alarms are folded under one, in words.
pub(crate) fn folded_under(alarm: &Value) -> Vec<String> {
    let folded = alarm["folded"].as_array().into_iter().flatten();
    let describe = |folded: &Value| {
        let below = folded_under(folded);
        let name = folded["culprit"].as_str().or(folded["text"].as_str()).unwrap_or_default();
        if below.is_empty() { name.to_owned() } else { format!("{name} ({})", below.join(", ")) }
    };
    folded.map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_alarm_of_hosts_names_them_and_their_nodes() {
        let node = |name: &str| json!({ "culprit": name, "text": format!("{name} is silent"), "folded": [] });
        let host = |name: &str, nodes: Value| json!({ "culprit": name, "folded": nodes });
        let hosts = [host("daq1", json!([node("bu0"), node("bu1")])), host("daq2", json!([node("bu2")]))];
        let alarms = json!([
            { "severity": "error", "text": "all 3 nodes on 2 hosts are silent: daq1, daq2", "remedy": "look at the switch", "folded": hosts },
            { "severity": "warning", "text": "20 % dead time", "remedy": "wait", "folded": [] }
        ]);
        assert_eq!(
            describe(&alarms),
            "alarm     error: all 3 nodes on 2 hosts are silent: daq1, daq2\n          look at the switch\n          \
             stands for daq1 (bu0, bu1), daq2 (bu2)\nalarm     warning: 20 % dead time\n          wait\n"
        );
    }
}
