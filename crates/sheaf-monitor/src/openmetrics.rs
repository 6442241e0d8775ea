//! A snapshot in the text format of `OpenMetrics` 1.0, which Prometheus scrapes.

use crate::alarms::HostFigures;
use crate::values::{Refusal, ValueBoard, ValueReport};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as FormatUnit};
use sheaf_telemetry::publication::Series;
use sheaf_telemetry::{Kind, Metric, NodeSnapshot, Snapshot, Unit, buckets, catalog};
use std::fmt;

/// Media type of the format.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The run that metrics are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunLabels {
    pub(crate) run: u32,
    /// Partition of the system.
    pub(crate) partition: Option<String>,
    /// Version of Sheaf.
    pub(crate) version: &'static str,
}

/// Returns all series of a snapshot, each with the label `node`, and those of the run, of values from outside and of hosts.
///
/// # Errors
/// If the encoder fails, which it does only when it cannot write text.
pub(crate) fn encode(
    snapshot: Snapshot,
    run: Option<RunLabels>,
    (values, hosts): (&ValueBoard, &HostFigures),
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let values = Values { reports: values.reports(), refusals: values.refusals() };
    registry.register_collector(Box::new(Collected { snapshot, run, values, hosts: hosts.clone() }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Collected {
    snapshot: Snapshot,
    run: Option<RunLabels>,
    values: Values,
    hosts: HostFigures,
}

/// Values from outside.
#[derive(Debug)]
struct Values {
    reports: Vec<ValueReport>,
    refusals: Vec<(Refusal, u64)>,
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in catalog::ALL.iter().filter(|metric| metric.kind != Kind::Row) {
            let mut family = Family::begin(metric, &mut encoder)?;
            if let Some(run) = self.run.as_ref().filter(|_| **metric == catalog::RUN_INFO) {
                family.add_run(run)?;
            }
            self.values.add_to(&mut family)?;
            add_hosts(&self.hosts, &mut family)?;
            for (name, node) in &self.snapshot.nodes {
                if let Some(value) = of_publication(metric, node) {
                    family.add_labelled(&[("node", name)], &[value])?;
                }
                for (series, values) in node.of(metric) {
                    family.add(name, series, values)?;
                }
            }
        }
        Ok(())
    }
}

impl Values {
    /// Adds the series of a metric of values, if it is one.
    fn add_to(&self, family: &mut Family<'_>) -> fmt::Result {
        let metric = family.metric;
        if *metric == catalog::VALUES_REFUSED {
            for (reason, count) in &self.refusals {
                family.add_labelled(&[("reason", reason.name())], &[*count])?;
            }
        }
        for report in &self.reports {
            let name = ("name", &*report.name);
            if *metric == catalog::VALUE {
                if let Some(value) = report.fresh() {
                    let unit = ("unit", report.unit.as_deref().unwrap_or_default());
                    family.add_gauge(&[name, unit], value)?;
                }
            } else if *metric == catalog::VALUE_AGE {
                if let Some(age_ms) = report.age_ms {
                    family.add_labelled(&[name], &[age_ms.saturating_mul(1_000_000)])?;
                }
            } else if *metric == catalog::VALUE_FRESH {
                family.add_labelled(&[name], &[u64::from(report.fresh().is_some())])?;
            } else if *metric == catalog::VALUE_READINGS {
                family.add_labelled(&[name], &[report.readings])?;
            }
        }
        Ok(())
    }
}

/// Adds the series of a metric of expected nodes and their hosts, if it is one.
fn add_hosts(hosts: &HostFigures, family: &mut Family<'_>) -> fmt::Result {
    let metric = family.metric;
    if *metric == catalog::NODE_EXPECTED {
        for node in &hosts.expected {
            family.add_labelled(&[("node", node)], &[1])?;
        }
    }
    if *metric == catalog::NODE_HOST {
        for (node, host) in &hosts.hosts {
            family.add_labelled(&[("node", node), ("host", host)], &[1])?;
        }
    }
    for (host, count) in &hosts.counts {
        if *metric == catalog::HOST_NODES {
            family.add_labelled(&[("host", host)], &[count.nodes])?;
        } else if *metric == catalog::HOST_NODES_AWAY {
            family.add_labelled(&[("host", host)], &[count.away()])?;
        }
    }
    Ok(())
}

/// Returns the value of a metric about the publication of a node itself; `None` of other metrics.
fn of_publication(metric: &Metric, node: &NodeSnapshot) -> Option<u64> {
    if *metric == catalog::NODE_UP {
        Some(u64::from(!node.is_gone))
    } else if *metric == catalog::NODE_AGE {
        Some(u64::try_from(node.age.as_nanos()).unwrap_or(u64::MAX))
    } else {
        (*metric == catalog::NODE_RESTARTS).then_some(node.restarts)
    }
}

/// The series of a metric while they are written.
struct Family<'a> {
    metric: &'a Metric,
    encoder: MetricEncoder<'a>,
}

impl<'a> Family<'a> {
    fn begin(metric: &'a Metric, encoder: &'a mut DescriptorEncoder<'_>) -> Result<Self, fmt::Error> {
        let unit = match metric.unit {
            Unit::Count => None,
            Unit::Bytes => Some(&FormatUnit::Bytes),
            Unit::Seconds => Some(&FormatUnit::Seconds),
        };
        // The encoder appends the unit.
        let family = metric.family();
        let without_unit = metric.unit.name().and_then(|unit| family.strip_suffix(unit)?.strip_suffix('_'));
        let name = without_unit.unwrap_or(family);
        let kind = match metric.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge | Kind::Row => MetricType::Gauge,
            Kind::Info => MetricType::Info,
            Kind::Histogram => MetricType::Histogram,
        };
        Ok(Self { metric, encoder: encoder.encode_descriptor(name, metric.help, unit, kind)? })
    }

    fn add(&mut self, node: &str, series: &Series, values: &[u64]) -> fmt::Result {
        let names = self.metric.labels.iter().copied();
        let labels = names.zip(series.labels.iter().map(String::as_str));
        let labels: Vec<(&str, &str)> = std::iter::once(("node", node)).chain(labels).collect();
        self.add_labelled(&labels, values)
    }

    fn add_run(&mut self, RunLabels { run, partition, version }: &RunLabels) -> fmt::Result {
        let run = run.to_string();
        let labels =
            [("run", &*run), ("partition", partition.as_deref().unwrap_or_default()), ("version", version)];
        self.encoder.encode_info(&labels)
    }

    fn add_gauge(&mut self, labels: &[(&str, &str)], value: f64) -> fmt::Result {
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    fn add_labelled(&mut self, labels: &[(&str, &str)], values: &[u64]) -> fmt::Result {
        let mut encoder = self.encoder.encode_family(&labels)?;
        let Some(first) = values.first().copied() else { return Ok(()) };
        match (self.metric.kind, self.metric.unit) {
            (Kind::Histogram, _) => encode_histogram(encoder, values),
            (Kind::Counter, Unit::Seconds) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&Unit::Seconds.scale(first), None)
            }
            (Kind::Counter, _) => encoder.encode_counter::<NoLabelSet, _, u64>(&first, None),
            (Kind::Gauge | Kind::Info | Kind::Row, Unit::Seconds) => {
                encoder.encode_gauge(&Unit::Seconds.scale(first))
            }
            (Kind::Gauge | Kind::Info | Kind::Row, _) => encoder.encode_gauge(&first),
        }
    }
}

fn encode_histogram(mut encoder: MetricEncoder<'_>, values: &[u64]) -> fmt::Result {
    let Some((sum_ns, counts)) = values.split_last() else { return Ok(()) };
    let bounds = buckets::BOUNDS_NS.iter().map(|bound| Unit::Seconds.scale(*bound)).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
    let count = counts.iter().sum();
    encoder.encode_histogram::<NoLabelSet>(Unit::Seconds.scale(*sum_ns), count, &buckets, None)
}

#[cfg(test)]
mod tests;
