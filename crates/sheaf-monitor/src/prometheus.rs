//! Alert rules and dashboards for Prometheus and Grafana.
//!
//! They are made here so that they have the names of the [catalog](sheaf_telemetry::catalog): a test looks up each metric that an expression names, and
//! the tests of the command evaluate every expression in a real Prometheus.

use serde_json::{Value, json};

/// A condition that Prometheus watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name of the alert.
    pub name: &'static str,
    /// Expression that has results while the condition holds.
    pub expression: &'static str,
    /// Time for which it must hold.
    pub hold: &'static str,
    /// `warning` or `error`.
    pub severity: &'static str,
    /// Description; may contain labels of the result.
    pub summary: &'static str,
    /// Advice to the operator.
    pub remedy: &'static str,
}

/// All rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "SheafBooksDoNotBalance",
        expression: "abs(sum without (outcome) (sheaf_events_total) + sheaf_events_in_flight - sheaf_triggers_accepted_total) > 0",
        hold: "0s",
        severity: "error",
        summary: "The books of triggers do not balance",
        remedy: "It is a bug in Sheaf: keep the run directory and the log, and report it",
    },
    Rule {
        name: "SheafEventsLost",
        expression: r#"increase(sheaf_event_drops_total{reason!="incomplete"}[1m]) > 0"#,
        hold: "0s",
        severity: "error",
        summary: "Events are lost: {{ $labels.reason }}",
        remedy: "Look the reason up in docs/concepts/ledger.md",
    },
    Rule {
        name: "SheafHostSilent",
        expression: "sheaf_host_nodes_away == sheaf_host_nodes and sheaf_host_nodes > 1",
        hold: "5s",
        severity: "error",
        summary: "All nodes on {{ $labels.host }} are silent or have ended",
        remedy: "Look at the host, its power and its network, and whether its agent runs; if several hosts are silent, at what they have in common",
    },
    Rule {
        name: "SheafNodeSilent",
        expression: r#"sheaf_node_age_seconds > 5 and on (instance, node) sheaf_node_up == 1 unless on (instance, node) label_replace(sheaf_node_excluded == 1, "node", "$1", "peer", "(.+)") unless on (instance, node) (sheaf_node_host and on (instance, host) (sheaf_host_nodes_away == sheaf_host_nodes and sheaf_host_nodes > 1))"#,
        hold: "5s",
        severity: "error",
        summary: "{{ $labels.node }} publishes nothing",
        remedy: "Its process is stopped, hangs, or gets no processor time, or its agent is not connected: look at its host",
    },
    Rule {
        name: "SheafNodeAbsent",
        expression: r#"sheaf_node_expected unless on (instance, node) sheaf_node_up unless on (instance, node) label_replace(sheaf_node_excluded == 1, "node", "$1", "peer", "(.+)") unless on (instance) sheaf_run_state{state="starting"} == 1"#,
        hold: "10s",
        severity: "error",
        summary: "{{ $labels.node }} has published nothing since the run began",
        remedy: "Its process hangs, was not started, or does not reach the host of the run: look at its host and its log",
    },
    Rule {
        name: "SheafNodeRestarts",
        expression: "increase(sheaf_node_restarts_total[10m]) > 0 or increase(sheaf_builder_sessions_lost_total[10m]) > 0",
        hold: "0s",
        severity: "warning",
        summary: "{{ $labels.node }}: a node died and was restarted",
        remedy: "Its log has the reason",
    },
    Rule {
        name: "SheafUnprotected",
        expression: r#"sheaf_standby_ready == 0 unless on (instance) sheaf_run_state{state=~"starting|closing|closed"} == 1"#,
        hold: "5s",
        severity: "warning",
        summary: "The event manager has no standby that can take over: if it dies now, the run ends",
        remedy: "Its log says why the standby ended, or was too slow, or which voters are away; a standby that is started again joins during the run",
    },
    Rule {
        name: "SheafUnmirrored",
        expression: r#"sheaf_readout_mirrored == 0 unless on (instance) sheaf_run_state{state=~"starting|closing|closed"} == 1"#,
        hold: "0s",
        severity: "warning",
        summary: "{{ $labels.readout }} has no mirror any more: if it dies now, its fragments are lost",
        remedy: "The run goes on, and has new mirrors when it is started again; the log says which process has ended, or was too slow",
    },
    Rule {
        name: "SheafOutputFails",
        expression: "sheaf_output_failing == 1",
        hold: "5s",
        severity: "error",
        summary: "The output of {{ $labels.node }} does not work or has no room; events wait",
        remedy: "Look at the disk: free space, errors, other writers",
    },
    Rule {
        name: "SheafDeadTime",
        expression: "sum by (node) (rate(sheaf_dead_seconds_total{cause!=\"paused\"}[1m])) > 0.1",
        hold: "1m",
        severity: "warning",
        summary: "More than 10 % dead time",
        remedy: "The dashboard \"dead time\" shows cause and culprit; the page of the run has the remedy for each cause",
    },
    Rule {
        name: "SheafSourceSilent",
        expression: "sheaf_source_age_seconds > 10 and sheaf_source_behind == 1",
        hold: "10s",
        severity: "warning",
        summary: "Source {{ $labels.source }} of {{ $labels.node }} does not give what is requested",
        remedy: "Look at its front end and its link",
    },
    Rule {
        name: "SheafIncompleteEvents",
        expression: "rate(sheaf_events_incomplete_total[1m]) > 0",
        hold: "30s",
        severity: "warning",
        summary: "Events are built without required sources",
        remedy: "sheaf_source_missing_total has the sources",
    },
];

/// A dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dashboard {
    /// Name in addresses.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// Its panels.
    pub panels: &'static [Panel],
}

/// A panel with curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Title.
    pub title: &'static str,
    /// Unit, as Grafana names it.
    pub unit: &'static str,
    /// Whether curves are stacked.
    pub stacked: bool,
    /// Expressions, and the legend of each.
    pub curves: &'static [(&'static str, &'static str)],
}

/// All dashboards.
pub const DASHBOARDS: &[Dashboard] = &[
    Dashboard {
        id: "overview",
        title: "Sheaf: overview",
        panels: &[
            curves(
                "Events",
                "cps",
                &[
                    ("rate(sheaf_events_total[1m])", "{{outcome}}"),
                    ("rate(sheaf_events_incomplete_total[1m])", "incomplete"),
                ],
            ),
            curves("Payload of ended events", "Bps", &[("rate(sheaf_event_bytes_total[1m])", "{{node}}")]),
            stacked(
                "Dead time by cause",
                "percentunit",
                &[("sum by (cause) (rate(sheaf_dead_seconds_total[1m]))", "{{cause}}")],
            ),
            curves(
                "Time from trigger to end",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(sheaf_event_seconds_bucket[1m])))",
                        "half of the events",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(sheaf_event_seconds_bucket[1m])))",
                        "99 % of the events",
                    ),
                ],
            ),
            curves(
                "Events in flight",
                "short",
                &[
                    ("sheaf_events_in_flight", "in flight"),
                    ("sum(sheaf_credit_slots)", "free slots of builder units"),
                ],
            ),
            curves("Events lost", "short", &[("increase(sheaf_event_drops_total[5m])", "{{reason}}")]),
        ],
    },
    Dashboard {
        id: "dead-time",
        title: "Sheaf: dead time",
        panels: &[
            stacked(
                "By cause",
                "percentunit",
                &[("sum by (cause) (rate(sheaf_dead_seconds_total[1m]))", "{{cause}}")],
            ),
            stacked(
                "By culprit",
                "percentunit",
                &[(r#"sum by (culprit) (rate(sheaf_dead_seconds_total{culprit!=""}[1m]))"#, "{{culprit}}")],
            ),
            curves("Vetoed triggers", "cps", &[("rate(sheaf_triggers_vetoed_total[1m])", "{{cause}}")]),
            curves(
                "Fill of buffers",
                "percentunit",
                &[("sheaf_buffer_bytes / sheaf_buffer_limit_bytes", "{{node}}")],
            ),
            curves("Free slots", "short", &[("sheaf_credit_slots", "{{builder}}")]),
        ],
    },
    Dashboard {
        id: "nodes",
        title: "Sheaf: nodes",
        panels: &[
            curves(
                "Fragments received",
                "cps",
                &[(r#"rate(sheaf_fragments_total{bin="received"}[1m])"#, "{{node}}")],
            ),
            curves(
                "Payload sent by readout units",
                "Bps",
                &[("rate(sheaf_sent_bytes_total[1m])", "{{node}}")],
            ),
            curves(
                "Fragments dropped",
                "short",
                &[("increase(sheaf_fragment_drops_total[5m])", "{{node}} {{reason}}")],
            ),
            curves(
                "Sources missing in events",
                "short",
                &[("sum by (source) (increase(sheaf_source_missing_total[5m]))", "{{source}}")],
            ),
            curves("Events not written yet", "short", &[("sheaf_events_unwritten", "{{node}}")]),
            curves("Age of the values", "s", &[("sheaf_node_age_seconds", "{{node}}")]),
            curves(
                "Repeated requests and messages",
                "short",
                &[
                    ("increase(sheaf_retried_requests_total[5m])", "{{node}} requests"),
                    ("increase(sheaf_repeated_messages_total[5m])", "{{node}} messages"),
                ],
            ),
        ],
    },
];

const fn curves(
    title: &'static str,
    unit: &'static str,
    curves: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, unit, stacked: false, curves }
}

const fn stacked(
    title: &'static str,
    unit: &'static str,
    curves: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, unit, stacked: true, curves }
}

/// Returns all rules as a rule file.
#[must_use]
pub fn rule_file() -> String {
    let mut text = String::from("groups:\n  - name: sheaf\n    rules:\n");
    for rule in RULES {
        // A JSON string is a string of YAML, too.
        let quoted = |text: &str| Value::from(text).to_string();
        text.push_str(&format!("      - alert: {}\n        expr: {}\n", rule.name, quoted(rule.expression)));
        text.push_str(&format!(
            "        for: {}\n        labels: {{ severity: {} }}\n",
            rule.hold, rule.severity
        ));
        let (summary, remedy) = (quoted(rule.summary), quoted(rule.remedy));
        text.push_str(&format!(
            "        annotations:\n          summary: {summary}\n          remedy: {remedy}\n"
        ));
    }
    text
}

/// Returns a dashboard as Grafana imports it.
#[must_use]
pub fn dashboard_file(dashboard: &Dashboard) -> Value {
    let panels = dashboard.panels.iter().enumerate();
    json!({
        "uid": format!("sheaf-{}", dashboard.id),
        "title": dashboard.title,
        "tags": ["sheaf"],
        "schemaVersion": 39,
        "refresh": "5s",
        "time": { "from": "now-30m", "to": "now" },
        "templating": { "list": [
            { "name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
            partition_variable(),
        ] },
        "panels": panels.map(|(index, panel)| panel_file(index, panel)).collect::<Vec<_>>(),
    })
}

/// Returns the choice of a partition. All stands for targets without a partition, too.
fn partition_variable() -> Value {
    let query = "label_values(sheaf_run_info, partition)";
    json!({
        "name": "partition",
        "label": "Partition",
        "type": "query",
        "datasource": { "type": "prometheus", "uid": "${source}" },
        "definition": query,
        "query": { "query": query, "refId": "partition" },
        "refresh": 2,
        "sort": 1,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

/// Returns an expression for the chosen partitions only: their label is on each series, as that of the target.
fn of_partition(expression: &str) -> String {
    const CHOSEN: &str = "partition=~\"$partition\"";
    let mut text = String::new();
    let mut rest = expression;
    while let Some(begin) = rest.find("sheaf_") {
        let name = rest[begin..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (before, after) = rest.split_at(name.map_or(rest.len(), |length| begin + length));
        text.push_str(before);
        match after.strip_prefix('{') {
            Some(labels) => {
                text.push_str(&format!("{{{CHOSEN},"));
                rest = labels;
            }
            None => {
                text.push_str(&format!("{{{CHOSEN}}}"));
                rest = after;
            }
        }
    }
    text + rest
}

/// Panels are in two columns.
fn panel_file(index: usize, panel: &Panel) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${source}" });
    let targets = panel.curves.iter().zip('A'..).map(|((expression, legend), id)| {
        json!({ "refId": id.to_string(), "expr": of_partition(expression), "legendFormat": legend, "datasource": source })
    });
    let stacking = if panel.stacked { "normal" } else { "none" };
    json!({
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": { "x": index % 2 * 12, "y": index / 2 * 8, "w": 12, "h": 8 },
        "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0, "custom": { "stacking": { "mode": stacking } } }, "overrides": [] },
        "targets": targets.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_telemetry::{Kind, catalog};

    /// Returns the names of metrics in an expression.
    fn metrics(expression: &str) -> Vec<&str> {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("sheaf_")).collect()
    }

    #[test]
    fn expressions_name_metrics_of_the_catalog() {
        let of_panels =
            DASHBOARDS.iter().flat_map(|it| it.panels).flat_map(|panel| panel.curves).map(|(it, _)| *it);
        for expression in RULES.iter().map(|rule| rule.expression).chain(of_panels) {
            let names = metrics(expression);
            assert!(!names.is_empty(), "{expression}");
            for name in names {
                let histogram = name.strip_suffix("_bucket").and_then(catalog::find);
                let is_known = catalog::find(name).is_some_and(|metric| metric.kind != Kind::Histogram)
                    || histogram.is_some_and(|metric| metric.kind == Kind::Histogram);
                assert!(is_known, "{name} in {expression}");
            }
        }
    }

    /// Nothing waits for a node that an operator has excluded.
    #[test]
    fn rules_about_absent_nodes_leave_out_excluded_ones() {
        for name in ["SheafNodeSilent", "SheafNodeAbsent"] {
            let rule = RULES.iter().find(|rule| rule.name == name).expect("it is in the list");
            assert!(rule.expression.contains("label_replace(sheaf_node_excluded == 1"), "{name}");
        }
    }

    #[test]
    fn the_rule_file_quotes_what_yaml_would_read_otherwise() {
        let text = rule_file();
        assert!(
            text.contains(r#"expr: "increase(sheaf_event_drops_total{reason!=\"incomplete\"}[1m]) > 0""#),
            "{text}"
        );
        assert_eq!(text.matches("- alert: ").count(), RULES.len());
    }

    #[test]
    fn every_series_of_a_dashboard_is_of_the_chosen_partitions() {
        assert_eq!(
            of_partition("sheaf_a / sheaf_b"),
            r#"sheaf_a{partition=~"$partition"} / sheaf_b{partition=~"$partition"}"#
        );
        let with_labels = of_partition(r#"sum by (le) (rate(sheaf_a_bucket{cause!=""}[1m]))"#);
        assert_eq!(
            with_labels,
            r#"sum by (le) (rate(sheaf_a_bucket{partition=~"$partition",cause!=""}[1m]))"#
        );
        for dashboard in DASHBOARDS {
            let file = dashboard_file(dashboard);
            assert_eq!(file["templating"]["list"][1]["name"], "partition");
            let panels = file["panels"].as_array().expect("panels are a list").iter();
            for target in panels.flat_map(|panel| panel["targets"].as_array().expect("targets are a list")) {
                let expression = target["expr"].as_str().expect("it is text");
                let chosen = expression.matches(r#"{partition=~"$partition""#).count();
                assert_eq!(chosen, metrics(expression).len(), "{expression}");
            }
        }
    }

    #[test]
    fn panels_of_a_dashboard_do_not_overlap() {
        for dashboard in DASHBOARDS {
            let file = dashboard_file(dashboard);
            let panels = file["panels"].as_array().expect("panels are a list");
            let mut places: Vec<_> = panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
            places.sort();
            places.dedup();
            assert_eq!(places.len(), dashboard.panels.len());
        }
    }
}
