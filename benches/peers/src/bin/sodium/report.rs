//! The table: each program's native time, each engine's ratio to it, and geometric means.

use crate::engines::NAMES;
use crate::guests::PLACES;
use crate::measure::Samples;
use std::fmt::Write;

/// One program.
pub struct ReportRow {
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
    pub rows: Vec<ReportRow>,
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
            Some(ReportRow {
                program: program.clone(),
                native_ns: native / 1e3,
                ratios: engines.iter().map(ratio).collect(),
            })
        };
        let rows: Vec<_> = samples.iter().filter_map(row).collect();
        let all = |row: &&ReportRow| row.ratios.iter().all(Option::is_some);
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

    /// Lines that count the programs for which one of pirn's engines takes more than 1.03 of
    /// Wasmtime's time, and name them.
    pub fn lost(&self) -> String {
        let find = |name| self.engines.iter().position(|engine| *engine == name);
        let Some(wasmtime) = find("wasmtime") else {
            return String::new();
        };
        let mut text = String::new();
        for name in ["pirn", "pirn-native"] {
            let Some(pirn) = find(name) else { continue };
            let ratios = self.rows.iter().filter_map(|row| {
                let ratio = row.ratios[pirn]? / row.ratios[wasmtime]?;
                Some((row.program.as_str(), ratio))
            });
            let ratios: Vec<_> = ratios.collect();
            let logs = ratios.iter().map(|(_, ratio)| ratio.ln());
            let mean = (logs.sum::<f64>() / ratios.len() as f64).exp();
            let lost: Vec<_> = ratios.iter().filter(|(_, ratio)| *ratio > LOST).collect();
            let names = lost
                .iter()
                .map(|(name, ratio)| format!("{name} {ratio:.2}"));
            let names: Vec<_> = names.collect();
            let _ = writeln!(
                text,
                "\n{name} takes {mean:.3} of Wasmtime's time in the mean of {}, and more than \
                 {LOST} for {}: {}",
                ratios.len(),
                lost.len(),
                names.join(", ")
            );
        }
        text
    }
}

/// A larger ratio to Wasmtime's time counts as slower.
const LOST: f64 = 1.03;

/// A table of the percent by which the slowest placement of a program takes longer than the
/// fastest, if there are several. A placement's time is the median of its samples.
pub fn spreads(samples: &Samples) -> Option<String> {
    let engines = NAMES
        .into_iter()
        .filter(|name| samples.values().any(|by| by.contains_key(*name)));
    let engines: Vec<_> = engines.collect();
    let spread = |all: &Vec<f64>| {
        let place = |place: usize| {
            let mut of_place: Vec<_> = all
                .iter()
                .skip(place)
                .step_by(PLACES.len())
                .copied()
                .collect();
            of_place.sort_by(f64::total_cmp);
            of_place[of_place.len() / 2]
        };
        let places = (all.len() >= PLACES.len()).then(|| (0..PLACES.len()).map(place));
        let (least, most) = places?.fold((f64::MAX, 0_f64), |(least, most), time| {
            (least.min(time), most.max(time))
        });
        Some(100. * (most / least - 1.))
    };
    let mut text = format!("\n| spread over {} placements, % |", PLACES.len());
    for engine in &engines {
        let _ = write!(text, " {engine} |");
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(engines.len()));
    let mut any = false;
    for (program, by) in samples {
        let _ = write!(text, "| {program} |");
        for engine in &engines {
            let spread = by.get(*engine).and_then(spread);
            any |= spread.is_some();
            let _ = match spread {
                Some(spread) => write!(text, " {spread:.0} |"),
                None => write!(text, " - |"),
            };
        }
        let _ = writeln!(text);
    }
    any.then_some(text)
}
