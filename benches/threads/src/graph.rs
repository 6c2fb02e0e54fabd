//! The graph: time by the number of threads.

use crate::programs::{Allocator, Row, THREADS, Task, World};
use anyhow::Result;
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Right end of the axis of threads. The legend is between the last point and there.
const X_MAX: f64 = 42.0;

/// Draws both programs side by side into an SVG file.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn draw(file: &Path, medians: &BTreeMap<(Row, u32), f64>) -> Result<()> {
    let area = SVGBackend::new(file, (1280, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let halves = area.split_evenly((1, 2));
    for (half, task) in halves.iter().zip([Task::Compute, Task::Allocate]) {
        let of_task = || medians.iter().filter(|((row, _), _)| row.0 == task);
        let most = of_task().map(|(_, took)| took * 1e3).fold(1.0, f64::max) * 1.3;
        let least = of_task().map(|(_, took)| took * 1e3).fold(most, f64::min) * 0.8;
        let mut chart = ChartBuilder::on(half)
            .caption(format!("{task}, by number of threads"), ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(58)
            .build_cartesian_2d(
                (1.0..X_MAX).log_scale().base(2.0),
                (least..most).log_scale(),
            )?;
        let number = |threads: &f64| match threads {
            ..=8.0 => threads.to_string(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .x_labels(6)
            .x_label_formatter(&number)
            .x_desc("threads")
            .y_desc("ms")
            .y_label_formatter(&|value| format!("{value:.0}"))
            .draw()?;
        let rows = of_task()
            .map(|((row, _), _)| *row)
            .collect::<std::collections::BTreeSet<_>>();
        for row in rows {
            let (_, allocator, world) = row;
            let color = match world {
                World::Native => RGBColor(110, 110, 110),
                World::Pirn => RGBColor(200, 40, 40),
                World::Wasmtime => RGBColor(50, 90, 200),
            };
            let mark = match allocator {
                Allocator::System => 0,
                Allocator::Dlmalloc => 3,
                Allocator::Mimalloc => 5,
            };
            let points =
                THREADS.map(|threads| (f64::from(threads), medians[&(row, threads)] * 1e3));
            let label = match task {
                Task::Compute => world.to_string(),
                _ => format!("{allocator}, {world}"),
            };
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)))?
                .label(label)
                .legend(move |(x, y)| Circle::new((x + 8, y), mark.max(2), color.filled()));
            chart
                .draw_series(points.map(|point| Circle::new(point, mark.max(2), color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
    }
    area.present()?;
    Ok(())
}
