//! The table: each program's native time, each engine's ratio to it, and geometric means.

use crate::engines::NAMES;
use crate::measure::Samples;
use std::fmt::Write;

/// One program.
pub struct Row {
    /// Name of the program.
    pub program: String,
    /// Nanoseconds of a native pass.
    pub native_ns: f64,
    /// Ratio of each engine's time to the native time, in the order of [`Table::engines`].
    pub ratios: Vec<Option<f64>>,
}

/// The results of all programs.
pub struct Table {
    /// The engines with samples, except the native one.
    pub engines: Vec<&'static str>,
    /// The programs, sorted by name.
    pub rows: Vec<Row>,
    /// Geometric means of the ratios, over the programs that all engines ran.
    pub means: Vec<f64>,
    /// Number of those programs.
    pub common: usize,
}

impl Table {
    /// Computes medians of the samples, or minima with `least`, and the ratios and means.
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

    /// The table as Markdown.
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
