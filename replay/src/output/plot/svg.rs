//! Values over time as SVG: one self-contained file without scripts, fonts or references, light and readable when
//! printed.
//!
//! Texts are escaped for XML here; control characters are escaped by [`Out`].

use super::axis::{times, Scale};
use super::{heading, Drawing};
use crate::model::enum_strings::severity_name;
use crate::model::series::Series;
use crate::out::{line, Out};
use crate::time::Zone;
use std::fmt::Write as _;
use std::io;

/// Width of the drawing, pixels.
const WIDTH: f64 = 1000.0;
/// Left edge and width of the plots.
const LEFT: f64 = 110.0;
const INNER: f64 = 870.0;
/// Height of a plot of numbers, and of a lane of states.
const HEIGHT: f64 = 150.0;
const LANE: f64 = 16.0;
/// Height of the band of severities, and what a PV takes beside its plot.
const BAND: f64 = 6.0;
const BESIDE: f64 = 48.0;
/// Space above the first plot and below the last.
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Letters of a heading and of a state: more don't fit.
const MAX_HEADING: usize = 130;
const MAX_STATE: usize = 15;

/// Colours of the severities; they differ in brightness, too.
const SEVERITIES: [&str; 4] = ["#cfe8cf", "#e6b800", "#c00020", "#7a2fa0"];

const STYLE: &str = "text{font:12px sans-serif;fill:#222}.h{font-weight:bold}.l{fill:#555;font-size:11px}\
                     .g{stroke:#ddd;stroke-width:1}.f{fill:none;stroke:#888}.v{fill:none;stroke:#1f5fa8;stroke-width:1.5}\
                     .r{fill:#1f5fa8;fill-opacity:.35}.s{fill:#5b8fc7}";

/// Draws.
pub fn draw(out: &mut Out, drawing: &Drawing, zone: &Zone) -> io::Result<()> {
    let height = |series: &Series| plot_height(series) + BAND + BESIDE;
    let total = TOP + drawing.drawn().map(height).sum::<f64>() + BOTTOM;
    line!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" width="{WIDTH}" height="{total}" role="img">"#
    )?;
    let span = format!("{} to {}", zone.format(drawing.from, 3), zone.format(drawing.to, 3));
    line!(out, "<title>Values, {}</title>", xml(&span))?;
    line!(out, "<style>{STYLE}</style>")?;
    line!(
        out,
        "<defs><pattern id=\"u\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"6\" height=\"6\" fill=\"#f2f2f2\"/><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#bbb\"/>\
         </pattern></defs>"
    )?;
    line!(out, "<rect width=\"{WIDTH}\" height=\"{total}\" fill=\"#fff\"/>")?;
    line!(out, "<text x=\"{LEFT}\" y=\"20\">{}</text>", xml(&span))?;
    let mut top = TOP;
    for series in drawing.drawn() {
        plot(out, series, drawing, top, zone)?;
        top += height(series);
    }
    legend(out, top + 10.0)?;
    for (number, remark) in drawing.remarks().iter().take(1).enumerate() {
        let y = top + 34.0 + 14.0 * number as f64;
        line!(out, "<text class=\"l\" x=\"{LEFT}\" y=\"{y}\">{}</text>", xml(&cut(remark, MAX_HEADING)))?;
    }
    line!(out, "</svg>")
}

fn plot_height(series: &Series) -> f64 {
    match series.is_states() {
        true => LANE * series.lanes().len().max(1) as f64,
        false => HEIGHT,
    }
}

/// The horizontal place of a time.
fn x(drawing: &Drawing, time: i64) -> f64 {
    let span = drawing.to.saturating_sub(drawing.from).max(1) as f64;
    let part = time.saturating_sub(drawing.from) as f64 / span;
    LEFT + part.clamp(0.0, 1.0) * INNER
}

fn plot(out: &mut Out, series: &Series, drawing: &Drawing, top: f64, zone: &Zone) -> io::Result<()> {
    line!(out, "<g>")?;
    line!(
        out,
        "<text class=\"h\" x=\"{LEFT}\" y=\"{}\">{}</text>",
        top + 4.0,
        xml(&cut(&heading(series), MAX_HEADING))
    )?;
    let (top, height) = (top + 12.0, plot_height(series));
    for (time, text) in times(drawing.from, drawing.to, 8, zone) {
        let at = x(drawing, time);
        line!(out, "<line class=\"g\" x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{}\"/>", top + height)?;
        let y = top + height + BAND + 14.0;
        line!(out, "<text class=\"l\" x=\"{at:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", xml(&text))?;
    }
    for gap in &series.gaps {
        let (from, to) = (x(drawing, gap.from), x(drawing, gap.to.unwrap_or(drawing.to)));
        let words = if gap.ended { "the IOC had ended" } else { "not known: something went unseen" };
        let (width, height) = ((to - from).max(1.0), height + BAND);
        line!(
            out,
            "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\" fill=\"url(#u)\"><title>{words}</title></rect>"
        )?;
    }
    match series.is_states() {
        true => states(out, series, drawing, top)?,
        false => numbers(out, series, drawing, top)?,
    }
    line!(out, "<rect class=\"f\" x=\"{LEFT}\" y=\"{top}\" width=\"{INNER}\" height=\"{height}\"/>")?;
    band(out, series, drawing, top + height)?;
    line!(out, "</g>")
}

fn numbers(out: &mut Out, series: &Series, drawing: &Drawing, top: f64) -> io::Result<()> {
    let (low, high) = series.range().unwrap_or((0.0, 0.0));
    let scale = Scale::new(low, high, 5);
    let y = |value: f64| top + (1.0 - scale.place(value)) * HEIGHT;
    for tick in scale.ticks() {
        let at = y(tick);
        line!(
            out,
            "<line class=\"g\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\"/>",
            LEFT + INNER
        )?;
        let text = xml(&scale.text(tick));
        line!(
            out,
            "<text class=\"l\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            at + 4.0
        )?;
    }
    let mut path = String::new();
    let mut ranges = String::new();
    // where the path is, if the value is known up to there
    let mut known: Option<i64> = None;
    for (number, cell) in series.cells.iter().enumerate() {
        let until = series.holds_until(number, drawing.to);
        let (from, to, end) = (x(drawing, cell.from), x(drawing, cell.to), x(drawing, until));
        // several values: their range, and the last
        if cell.from != cell.to && cell.low.is_finite() && cell.high.is_finite() {
            let (high, low, width) = (y(cell.high), y(cell.low), (to - from).max(0.5));
            let _ = write!(ranges, "M{from:.1} {high:.1}h{width:.1}V{low:.1}h-{width:.1}z");
        }
        if cell.first.is_finite() {
            let _ = match known == Some(cell.from) {
                true => write!(path, "V{:.1}", y(cell.first)),
                false => write!(path, "M{from:.1} {:.1}", y(cell.first)),
            };
        }
        if !cell.last.is_finite() {
            known = None;
            continue;
        }
        if !cell.first.is_finite() {
            let _ = write!(path, "M{to:.1} {:.1}", y(cell.last));
        } else if cell.from != cell.to {
            let _ = write!(path, "H{to:.1}V{:.1}", y(cell.last));
        }
        let _ = write!(path, "H{end:.1}");
        known = Some(until);
    }
    if !ranges.is_empty() {
        line!(out, "<path class=\"r\" d=\"{ranges}\"/>")?;
    }
    line!(out, "<path class=\"v\" d=\"{path}\"/>")
}

fn states(out: &mut Out, series: &Series, drawing: &Drawing, top: f64) -> io::Result<()> {
    for (number, (state, name)) in series.lanes().iter().enumerate() {
        let y = top + LANE * number as f64;
        let name = xml(&cut(name, MAX_STATE));
        line!(
            out,
            "<text class=\"l\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
            LEFT - 6.0,
            y + 12.0
        )?;
        for (number, cell) in series.cells.iter().enumerate() {
            let until = series.holds_until(number, drawing.to);
            let lasts = cell.last == *state as f64;
            let (from, to) = match cell.has(*state) {
                // of several values it is known which there were, not when
                true => (cell.from, if lasts { until } else { cell.to }),
                false => continue,
            };
            let (from, to) = (x(drawing, from), x(drawing, to));
            let (width, y, height) = ((to - from).max(0.5), y + 3.0, LANE - 6.0);
            line!(
                out,
                "<rect class=\"s\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"/>"
            )?;
        }
    }
    Ok(())
}

/// The severities, in a band below the plot: neighbours of the same one as one.
fn band(out: &mut Out, series: &Series, drawing: &Drawing, y: f64) -> io::Result<()> {
    let mut spans: Vec<(u16, i64, i64)> = Vec::new();
    for (number, cell) in series.cells.iter().enumerate() {
        let until = series.holds_until(number, drawing.to);
        for (severity, from, to) in
            [(cell.severity, cell.from, cell.to), (cell.last_severity, cell.to, until)]
        {
            let Some(severity) = severity else { continue };
            match spans.last_mut() {
                Some((last, _, end)) if *last == severity && *end >= from => *end = to.max(*end),
                _ => spans.push((severity, from, to)),
            }
        }
    }
    for (severity, from, to) in spans {
        let colour = SEVERITIES.get(usize::from(severity)).copied().unwrap_or("#000");
        let (from, to) = (x(drawing, from), x(drawing, to));
        let (width, name) = ((to - from).max(0.5), severity_name(severity));
        line!(
            out,
            "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAND}\" fill=\"{colour}\"><title>{name}</title></rect>"
        )?;
    }
    Ok(())
}

fn legend(out: &mut Out, y: f64) -> io::Result<()> {
    let mut left = LEFT;
    let entries = ["no alarm", "MINOR", "MAJOR", "INVALID"].into_iter().zip(SEVERITIES);
    for (text, fill) in entries.chain([("not known", "url(#u)")]) {
        line!(out, "<rect x=\"{left}\" y=\"{y}\" width=\"14\" height=\"10\" fill=\"{fill}\"/>")?;
        line!(out, "<text class=\"l\" x=\"{}\" y=\"{}\">{text}</text>", left + 18.0, y + 9.0)?;
        left += 100.0;
    }
    Ok(())
}

/// The first letters of a text.
fn cut(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most).chain("...".chars()).collect(),
    }
}

/// Text for XML, also for an attribute.
fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML knows no such letters, even escaped
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}
