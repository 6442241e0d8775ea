//! A real Prometheus scrapes a run, evaluates all rules and all expressions of the dashboards, and has the numbers of the summary at the end.

use crate::child::{ScratchDirectory, wait_until};
use crate::monitor::{address, ask, get};
use crate::output::number;
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A Prometheus that is ended with the test.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts a Prometheus that discovers a run over HTTP. `None` where there is none.
    fn start(directory: &Path, run: &str) -> Option<Self> {
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\n\
             scrape_configs:\n  - job_name: sheaf\n    http_sd_configs: [{{ url: \"http://{run}/prometheus/targets\", refresh_interval: 1s }}]\n"
        );
        std::fs::write(directory.join("prometheus.yml"), config).unwrap();
        std::fs::write(directory.join("rules.yml"), get(run, "/prometheus/rules.yml")).unwrap();
        loop {
            // A port that was free a moment ago: Prometheus does not tell which one it took. If another program was faster, Prometheus ends.
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
            let child = Command::new("prometheus")
                .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"])
                .arg(format!("--web.listen-address={address}"))
                .current_dir(directory)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut prometheus = Self { child: child.ok()?, address };
            if prometheus.becomes_ready() {
                return Some(prometheus);
            }
        }
    }

    /// Waits until it answers. Returns `false` if it ends instead.
    fn becomes_ready(&mut self) -> bool {
        let mut has_ended = false;
        wait_until("Prometheus answers", || {
            has_ended = self.child.try_wait().unwrap().is_some();
            let is_ready = || {
                std::net::TcpStream::connect(&self.address).is_ok()
                    && ask(&self.address, "/-/ready").0.contains(" 200 OK")
            };
            has_ended || is_ready()
        });
        !has_ended
    }

    fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.api(&format!("query?query={encoded}"));
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    fn api(&self, path: &str) -> Value {
        serde_json::from_str(&get(&self.address, &format!("/api/v1/{path}"))).unwrap()
    }

    /// Returns the only value of an expression, if there is one.
    fn value(&self, expression: &str) -> Option<f64> {
        self.query(expression).first()?["value"][1].as_str()?.parse().ok()
    }

    fn wait_until_it_scrapes(&self) {
        wait_until("it has scraped the run three times", || {
            self.value("count_over_time(sheaf_events_in_flight[1h])").is_some_and(|count| count >= 3.0)
        });
    }
}

#[test]
fn a_prometheus_has_every_number_and_every_rule() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("run.toml", "[monitor]\nlinger_ms = 3600000\n");
    let mut running = scratch.start(&format!(
        "run {} --page=127.0.0.1:0 --readouts 2 --builders 2 --duration 0 --trigger-rate 2000 --json",
        config.display()
    ));
    let run = address(&mut running);
    let Some(prometheus) = Prometheus::start(scratch.path(), &run) else {
        println!("skipped: prometheus is not installed");
        return;
    };
    prometheus.wait_until_it_scrapes();
    for id in ["overview", "dead-time", "nodes"] {
        let dashboard: Value = serde_json::from_str(&get(&run, &format!("/grafana/{id}.json"))).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                prometheus.query(&target["expr"].as_str().unwrap().replace("$partition", ".*"));
            }
        }
    }
    assert!(!prometheus.query("rate(sheaf_events_total[1m])").is_empty());
    let assert_rules_work = |prometheus: &Prometheus| {
        let rules = prometheus.api("rules");
        let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
        assert!(rules.len() > 5);
        rules.iter().all(|rule| {
            assert_ne!(rule["health"], "err", "{rule}");
            rule["health"] == "ok"
        })
    };
    wait_until("every rule was evaluated", || assert_rules_work(&prometheus));

    running.signal("INT");
    running.wait_until_said("the page stays");
    let stored = || prometheus.value("sheaf_events_total{outcome=\"stored\"}");
    let accepted = || prometheus.value("sheaf_triggers_accepted_total");
    wait_until("Prometheus has the final numbers", || {
        prometheus.value("sheaf_run_state{state=\"closed\"}") == Some(1.0) && stored() == accepted()
    });
    let (stored, run_time) = (
        stored().unwrap(),
        prometheus.value("sum(sheaf_live_seconds_total) + sum(sheaf_dead_seconds_total)"),
    );
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert!((stored - number(&summary, "ledger.stored") as f64).abs() < 0.5);
    let expected = number(&summary, "ledger.time.run_ns") as f64 / 1e9;
    assert!((run_time.unwrap() - expected).abs() < 1e-6, "{run_time:?} instead of {expected}");
}
