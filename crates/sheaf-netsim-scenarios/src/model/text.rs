//! The model's result as text.

use super::{DetectorReport, Load, Report};
use crate::table::rate;
use sheaf_plot::TextTable;
use std::fmt::{self, Display};

/// A rate of messages.
fn hertz(rate: f64) -> String {
    match rate {
        rate if rate < 1e3 => format!("{rate:.0} Hz"),
        rate if rate < 1e6 => format!("{:.2} kHz", rate / 1e3),
        rate => format!("{:.2} MHz", rate / 1e6),
    }
}

fn load(name: &str, load: Load) -> Vec<String> {
    vec![
        name.to_owned(),
        load.ports.to_string(),
        hertz(load.messages_per_second),
        rate(load.bytes_per_second),
        hertz(load.building_messages_per_second),
        rate(load.building_bytes_per_second),
    ]
}

impl Report {
    fn totals(&self) -> TextTable {
        let head = ["", "ports", "messages", "bytes", "building: messages", "bytes"];
        let mut columns = TextTable::with_text_columns(1);
        columns.push(head);
        columns.push(load("alone", self.alone));
        columns.push(load("grouped", self.grouped));
        let factor = |factor: f64| format!("{factor:.1}");
        let factors = [self.factors.ports, self.factors.messages, self.factors.bytes];
        columns.push(std::iter::once("factor".to_owned()).chain(factors.map(factor)));
        columns
    }

    fn detectors(&self) -> TextTable {
        let head = ["detector", "ports", "grouped", "factor", "asked", "sends", "with building", "limits"];
        let mut columns = TextTable::with_text_columns(1);
        columns.push(head);
        for detector in &self.detectors {
            let (alone, grouped) = (detector.alone.ports, detector.grouped.ports);
            columns.push([
                detector.name.clone(),
                alone.to_string(),
                grouped.to_string(),
                format!("{:.1}", f64::from(alone) / f64::from(grouped)),
                hertz(detector.port_rate_hz),
                rate(detector.port_bytes_per_second),
                rate(detector.port_bytes_per_second_with_building),
                self.word(detector).to_owned(),
            ]);
        }
        columns
    }

    fn word(&self, detector: &DetectorReport) -> &'static str {
        match detector.within(self.limits) {
            (true, true) => "within",
            (true, false) => "building is too much",
            (false, _) => "beyond",
        }
    }

    fn requests(&self) -> TextTable {
        let mut columns = TextTable::with_text_columns(2);
        columns.push(["request", "detector", "rate", "buffers", "groups"]);
        for request in &self.requests {
            columns.push([
                request.name.clone(),
                request.detector.clone(),
                hertz(request.rate_hz),
                format!("{:.1}", request.buffers),
                format!("{:.2}", request.groups),
            ]);
        }
        columns
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n\n{}\n{}", self.name, self.about, self.totals(), self.detectors())?;
        let limits = self.limits;
        let (most_hz, most_bytes) = (hertz(limits.port_rate_hz), rate(limits.port_bytes_per_second));
        writeln!(f, "asked, sends: of each port of a group; limits: {most_hz}, {most_bytes}\n")?;
        write!(f, "{}", self.requests())
    }
}
