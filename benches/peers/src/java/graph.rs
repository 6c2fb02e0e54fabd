//! The graph of an invocation's time: a row for each program, with a point for each engine.

use anyhow::Result;
use plotters::prelude::*;
use std::path::Path;

/// Pixels between two rows.
const ROW: u32 = 44;

/// The time axis in microseconds.
const AXIS_US: std::ops::Range<f64> = 0.1..1e6;

/// Draws microseconds on a logarithmic scale: for each program a name, and a time for each of the
/// names of `engines`.
///
/// # Errors
///
/// The file cannot be written.
pub fn draw(rows: &[(&str, Vec<f64>)], engines: &[&str], to: &Path) -> Result<()> {
    let up = -0.5..rows.len() as f64 + 2.2;
    let height = 120 + ROW * (rows.len() as u32 + 2);
    let area = SVGBackend::new(to, (900, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(120)
        .build_cartesian_2d(AXIS_US.log_scale(), up)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_desc("microseconds an invocation")
        .y_labels(0)
        .draw()?;
    for (at, (name, _)) in rows.iter().rev().enumerate() {
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        let place = chart.backend_coord(&(AXIS_US.start, at as f64));
        let width = 7 * name.chars().count() as i32;
        area.draw_text(name, &style, (place.0 - width - 8, place.1 - 6))?;
        let ends = [(AXIS_US.start, at as f64), (AXIS_US.end, at as f64)];
        chart.draw_series(LineSeries::new(ends, BLACK.mix(0.15)))?;
    }
    for (number, name) in engines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let points = rows.iter().rev().enumerate();
        let points = points.map(|(at, (_, us))| (us[number], at as f64));
        chart
            .draw_series(points.map(|point| Circle::new(point, 5, colour.filled())))?
            .label(*name)
            .legend(move |at| Circle::new(at, 5, colour.filled()));
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
