//! The graph of cold and warm cycles: a row for each guest, with a point for each engine.

use anyhow::Result;
use plotters::prelude::*;
use std::path::Path;

/// The cycles of one guest in microseconds, in the order of the engines.
pub struct Cycles {
    pub guest: &'static str,
    pub us: Vec<f64>,
}

/// Pixels between two rows.
const ROW: u32 = 34;

/// Draws the cycles on a logarithmic scale.
pub fn draw(rows: &[Cycles], engines: &[&str], to: &Path) -> Result<()> {
    let up = -0.5..rows.len() as f64 - 0.5;
    let height = 130 + ROW * rows.len() as u32;
    let area = SVGBackend::new(to, (900, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let across = (1f64..1e5).log_scale();
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(230)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_desc("microseconds a cycle: instantiate, answer a request, drop")
        .y_labels(0)
        .draw()?;
    for (at, row) in rows.iter().rev().enumerate() {
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        let place = chart.backend_coord(&(1., at as f64));
        let width = 7 * row.guest.chars().count() as i32;
        area.draw_text(row.guest, &style, (place.0 - width - 8, place.1 - 6))?;
        let ends = [(1., at as f64), (1e5, at as f64)];
        chart.draw_series(LineSeries::new(ends, BLACK.mix(0.15)))?;
    }
    for (number, name) in engines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let points = rows.iter().rev().enumerate();
        let points = points.map(|(at, row)| (row.us[number], at as f64));
        chart
            .draw_series(points.map(|point| Circle::new(point, 5, colour.filled())))?
            .label(*name)
            .legend(move |at| Circle::new(at, 5, colour.filled()));
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
