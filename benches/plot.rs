//! Draws the graphs of docs/performance/instances.md from criterion's measurements.
//!
//! ```text
//! cargo bench -p pirn-benches --bench images --bench throughput --bench switch
//! cargo run --release -p pirn-benches --bin plot
//! ```
//!
//! The program reads `target/criterion` and writes `docs/plots`. Other folders can be passed as
//! arguments, in that order.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use plotters::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The graphs. Each shows the criterion group of the same name. Graphs that correspond to Lucet's
/// have Lucet's names.
const GRAPHS: [Graph; 8] = [
    Graph::new("instantiate_with_dense_heap", "KiB of image; 0 stands at 1"),
    Graph::new(
        "instantiate_with_sparse_heap",
        "KiB of image, one page of eight; 0 stands at 1",
    ),
    Graph::new(
        "drop_instance_with_dense_heap",
        "KiB of image; 0 stands at 1",
    ),
    Graph::new(
        "drop_instance_with_sparse_heap",
        "KiB of image, one page of eight; 0 stands at 1",
    ),
    Graph::new("par_instantiate", "threads"),
    Graph::new("par_run_null", "threads"),
    Graph::new("par_run_fib", "threads"),
    Graph::new("context", "pairs of switches"),
];

/// The contents of a graph.
struct Graph {
    group: &'static str,
    across: &'static str,
}

impl Graph {
    const fn new(group: &'static str, across: &'static str) -> Self {
        Self { group, across }
    }
}

/// The used fields of criterion's `benchmark.json`.
#[derive(Deserialize)]
struct Benchmark {
    group_id: String,
    function_id: Option<String>,
    value_str: Option<String>,
}

/// The used fields of criterion's `estimates.json`.
#[derive(Deserialize)]
struct Estimates {
    median: Median,
}

#[derive(Deserialize)]
struct Median {
    point_estimate: f64,
}

/// Points (x, nanoseconds) by group and by function.
type Measured = BTreeMap<String, BTreeMap<String, Vec<(f64, f64)>>>;

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let from = arguments
        .next()
        .unwrap_or_else(|| root.join("target/criterion"));
    let to = arguments.next().unwrap_or_else(|| root.join("docs/plots"));
    let mut measured = Measured::new();
    read(&from, &mut measured)?;
    fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
    for graph in &GRAPHS {
        let lines = measured.get(graph.group).with_context(|| {
            format!(
                "no measurement of {} in {}; run `cargo bench -p pirn-benches` first",
                graph.group,
                from.display()
            )
        })?;
        draw(graph, lines, &to.join(graph.group).with_extension("svg"))?;
    }
    println!("{} graphs in {}", GRAPHS.len(), to.display());
    Ok(())
}

/// Reads the latest measurements below a folder.
fn read(folder: &Path, measured: &mut Measured) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        if !path.ends_with("new") {
            read(&path, measured)?;
            continue;
        }
        let benchmark: Benchmark = parse(&path.join("benchmark.json"))?;
        let estimates: Estimates = parse(&path.join("estimates.json"))?;
        let at = benchmark.value_str.and_then(|value| value.parse().ok());
        let lines = measured.entry(benchmark.group_id).or_default();
        let points = lines
            .entry(benchmark.function_id.unwrap_or_default())
            .or_default();
        points.push((at.unwrap_or(1.), estimates.median.point_estimate));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(())
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not criterion's", path.display()))
}

/// Draws a line for each function, with a logarithmic time axis.
fn draw(graph: &Graph, lines: &BTreeMap<String, Vec<(f64, f64)>>, to: &Path) -> Result<()> {
    let points = || lines.values().flatten();
    ensure!(points().next().is_some(), "{} holds no point", graph.group);
    let most = |value: fn(&(f64, f64)) -> f64| points().map(value).fold(f64::MIN, f64::max);
    let least = |value: fn(&(f64, f64)) -> f64| points().map(value).fold(f64::MAX, f64::min);
    // The x axis starts below 1, so that 0 KiB, drawn at 1, and a single thread fit on a
    // logarithmic scale.
    let across = 0.9..(most(|p| p.0) * 1.3).max(2.);
    let up = least(|p| p.1) / 2. ..most(|p| p.1) * 3.;
    let area = SVGBackend::new(to, (720, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(graph.group, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(across.log_scale(), up.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(graph.across)
        .y_desc("median of one, ns")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let placed = || points.iter().map(|(x, y)| (x.max(1.), *y));
        chart
            .draw_series(LineSeries::new(placed(), colour.stroke_width(2)))?
            .label(name.replace(", KiB", ""))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart.draw_series(placed().map(|at| Circle::new(at, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}
