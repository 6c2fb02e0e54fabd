//! The graph: a line for each program, with a point for each engine.

use crate::report::Table;
use anyhow::Result;
use plotters::prelude::*;
use std::path::Path;

/// Pixels between two lines.
const LINE: u32 = 14;

/// Engines with a larger mean ratio are left out of the graph.
const MEAN_MAX: f64 = 8.;

/// Draws the ratios, with the programs in the order of pirn's ratio. Much slower engines are only
/// named.
pub fn draw(table: &Table, title: &str, to: &Path) -> Result<()> {
    let mut rows: Vec<_> = table.rows.iter().collect();
    let first = |ratios: &[Option<f64>]| ratios.first().copied().flatten().unwrap_or(f64::MAX);
    rows.sort_by(|a, b| first(&b.ratios).total_cmp(&first(&a.ratios)));
    let drawn = |number: usize| table.means[number] <= MEAN_MAX;
    let all = rows.iter().flat_map(|row| row.ratios.iter().enumerate());
    let all = all.filter_map(|(number, ratio)| ratio.filter(|_| drawn(number)));
    let (least, most) = (0., all.fold(2., f64::max) * 1.05);
    // The lowest line shows the means.
    let up = -1.5..rows.len() as f64 - 0.5;
    let area = SVGBackend::new(to, (900, 120 + LINE * (rows.len() as u32 + 1))).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(180)
        .build_cartesian_2d(least..most, up)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE)
        .x_desc("times the time of the same source compiled natively; lowest line: geometric means")
        .x_label_formatter(&|x| format!("{x:.1}"))
        .y_labels(0)
        .draw()?;
    let line = |at: f64, name: &str| {
        let style = ("sans-serif", 11).into_font().color(&BLACK);
        let place = chart.backend_coord(&(least, at));
        let width = 6 * name.chars().count() as i32;
        area.draw_text(name, &style, (place.0 - width - 6, place.1 - 5))
    };
    line(-1., "geometric mean")?;
    for (at, row) in rows.iter().enumerate() {
        line(at as f64, &row.program)?;
    }
    for at in -1..rows.len() as i32 {
        let ends = [(least, f64::from(at)), (most, f64::from(at))];
        chart.draw_series(LineSeries::new(ends, BLACK.mix(0.1)))?;
    }
    let native = [(1., -1.5), (1., rows.len() as f64 - 0.5)];
    chart.draw_series(LineSeries::new(native, BLACK.mix(0.6)))?;
    for (number, name) in table.engines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let points = rows.iter().enumerate().filter(|_| drawn(number));
        let points = points.filter_map(|(at, row)| Some((row.ratios[number]?, at as f64)));
        let mean = drawn(number).then_some((table.means[number], -1.));
        let points = points.chain(mean);
        let circle = |at| Circle::new(at, 3, colour.filled());
        let out = if drawn(number) { "" } else { ", not drawn" };
        chart
            .draw_series(points.map(circle))?
            .label(format!("{name}, {:.2}{out}", table.means[number]))
            .legend(move |(x, y)| Circle::new((x + 8, y), 3, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}
