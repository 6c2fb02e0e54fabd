//! The table: each program's time natively, each engine's ratio to it, and geometric means.

use crate::engines::NAMES;
use crate::measure::Samples;
use std::fmt::Write;

/// One program.
pub struct Row {
    /// Its name.
    pub program: String,
    /// Nanoseconds of a pass of the native one.
    pub native_ns: f64,
    /// How many times as long each engine takes, in the order of [`Table::engines`].
    pub ratios: Vec<Option<f64>>,
}

/// All programs.
pub struct Table {
    /// The engines that have samples, without the native one.
    pub engines: Vec<&'static str>,
    /// The programs, by name.
    pub rows: Vec<Row>,
    /// Geometric means of the ratios of those programs that all engines ran, and how many those are.
    pub means: Vec<f64>,
    /// How many programs that are.
    pub common: usize,
}

impl Table {
    /// Medians of samples, or the least of them, and what follows.
    pub fn new(samples: &Samples, least: bool) -> Self {
        let time = |samples: &Vec<f64>| {
            let mut all = samples.clone();
            all.sort_by(f64::total_cmp);
            all[if least { 0 } else { all.len() / 2 }]
        };
        let has = |name: &&str| samples.values().any(|by| by.contains_key(*name));
        let engines: Vec<_> = NAMES.into_iter().skip(1).filter(has).collect();
        let row = |(program, by): (&String, &std::collections::BTreeMap<String, Vec<f64>>)| {
            let native = time(by.get(NAMES[0])?);
            let ratio = |name: &&str| Some(time(by.get(*name)?) / native);
            Some(Row {
                program: program.clone(),
                native_ns: native / 1e3,
                ratios: engines.iter().map(ratio).collect(),
            })
        };
        let rows: Vec<_> = samples.iter().filter_map(row).collect();
        let all = |row: &&Row| row.ratios.iter().all(Option::is_some);
        let common: Vec<_> = rows.iter().filter(all).collect();
        let mean = |at: usize| {
            let logs = common.iter().filter_map(|row| row.ratios[at]).map(f64::ln);
            (logs.sum::<f64>() / common.len() as f64).exp()
        };
        let means = (0..engines.len()).map(mean).collect();
        let common = common.len();
        Self {
            engines,
            rows,
            means,
            common,
        }
    }

    /// As Markdown.
    pub fn text(&self) -> String {
        let mut text = String::from("| ns natively | |");
        let cells = |ratios: &mut dyn Iterator<Item = Option<f64>>| -> String {
            let cell = |ratio: Option<f64>| match ratio {
                Some(ratio) => format!(" {ratio:.2} |"),
                None => " - |".to_owned(),
            };
            ratios.map(cell).collect()
        };
        for engine in &self.engines {
            let _ = write!(text, " {engine} |");
        }
        let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(self.engines.len()));
        for row in &self.rows {
            let ratios = cells(&mut row.ratios.iter().copied());
            let _ = writeln!(text, "| {:.0} | {} |{ratios}", row.native_ns, row.program);
        }
        let means = cells(&mut self.means.iter().map(|mean| Some(*mean)));
        let _ = writeln!(text, "| | geometric mean of {} |{means}", self.common);
        text
    }
}
