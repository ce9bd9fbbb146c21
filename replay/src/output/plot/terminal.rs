//! Values over time on a terminal: braille dots for numbers, a lane for each state, several PVs one below another.

use super::axis::{times, Scale};
use super::{heading, Drawing};
use crate::model::series::{columns, Column, Series};
use crate::out::{add, line, Out};
use crate::terminal::style::Style;
use crate::time::Zone;
use std::io;

/// Limits of the width, in columns.
const WIDTH: (usize, usize) = (40, 400);
/// Rows of a plot of numbers.
const ROWS: usize = 8;
/// Columns for the labels of the value axis.
const LABEL: usize = 12;
/// States with a lane; others are said to be left out.
const MAX_LANES: usize = 16;

/// Draws on this many columns.
pub fn draw(out: &mut Out, drawing: &Drawing, width: usize, zone: &Zone) -> io::Result<()> {
    let width = width.clamp(WIDTH.0, WIDTH.1) - LABEL - 2;
    let time = |time| zone.format(time, 3);
    line!(out, "{} to {}", time(drawing.from), time(drawing.to))?;
    for series in drawing.drawn() {
        line!(out)?;
        line!(out, "{}", heading(series))?;
        match series.is_states() {
            true => states(out, series, drawing, width)?,
            false => numbers(out, series, drawing, width)?,
        }
        let columns = columns(series, drawing.from, drawing.to, width);
        severities(out, &columns)?;
        partly_unseen(out, &columns)?;
    }
    line!(out)?;
    time_axis(out, drawing, width, zone)?;
    line!(out, "alarm: . none, m MINOR, M MAJOR, I INVALID; {} not known", HATCH)
}

/// Where the value is not known.
const HATCH: char = '░';

fn numbers(out: &mut Out, series: &Series, drawing: &Drawing, width: usize) -> io::Result<()> {
    let (low, high) = series.range().unwrap_or((0.0, 0.0));
    let scale = Scale::new(low, high, ROWS / 2);
    let dots = ROWS * 4;
    let columns = columns(series, drawing.from, drawing.to, width * 2);
    // Braille dots of a letter, by row and column.
    const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
    // 0 is the top
    let row = |value: f64| ((1.0 - scale.place(value)) * (dots - 1) as f64).round() as usize;
    let labels: Vec<(usize, String)> =
        scale.ticks().iter().map(|tick| (row(*tick) / 4, scale.text(*tick))).collect();
    for number in 0..ROWS {
        let mut text = String::new();
        for pair in columns.chunks(2) {
            let mut letter = 0;
            for (side, column) in pair.iter().enumerate() {
                let Some((low, high)) = column.range else { continue };
                for (at, sides) in DOTS.iter().enumerate() {
                    if (row(high)..=row(low)).contains(&(number * 4 + at)) {
                        letter |= sides.get(side).copied().unwrap_or_default();
                    }
                }
            }
            text.push(match (letter, pair.iter().any(|column| column.gap)) {
                (0, true) => HATCH,
                (0, false) => ' ',
                (dots, _) => char::from_u32(0x2800 + dots).unwrap_or(' '),
            });
        }
        let label = labels.iter().find(|(at, _)| *at == number);
        let (label, mark) = label.map_or((String::new(), '│'), |(_, text)| (fitting(text), '┤'));
        line!(out, "{label:>LABEL$} {mark}{text}")?;
    }
    Ok(())
}

/// A label as far as there is room for it: of numbers that differ little, the last digits tell them apart.
fn fitting(label: &str) -> String {
    match label.chars().count().saturating_sub(LABEL) {
        0 => label.to_owned(),
        over => format!("…{}", label.chars().skip(over + 1).collect::<String>()),
    }
}

fn states(out: &mut Out, series: &Series, drawing: &Drawing, width: usize) -> io::Result<()> {
    let columns = columns(series, drawing.from, drawing.to, width);
    let lanes = series.lanes();
    for (state, name) in lanes.iter().take(MAX_LANES) {
        let letter = |column: &Column| match column.has(*state) {
            true => '█',
            false if column.gap => HATCH,
            false => ' ',
        };
        let text: String = columns.iter().map(letter).collect();
        let label: String = name.chars().take(LABEL).collect();
        line!(out, "{label:>LABEL$} │{text}")?;
    }
    if lanes.len() > MAX_LANES {
        line!(out, "{:>LABEL$}  {} more states", "", lanes.len() - MAX_LANES)?;
    }
    Ok(())
}

fn severities(out: &mut Out, columns: &[Column]) -> io::Result<()> {
    let letter = |column: &Column| match (column.severity, column.range) {
        (_, None) if column.gap => HATCH,
        (None, _) => ' ',
        (_, None) if !column.holes => ' ',
        (Some(0), _) => '.',
        (Some(1), _) => 'm',
        (Some(2), _) => 'M',
        (Some(_), _) => 'I',
    };
    // what has no severity, as a share of the processor
    if columns.iter().all(|column| column.severity.is_none()) {
        return Ok(());
    }
    add!(out, "{:>LABEL$} │", "alarm");
    let known = columns.iter().rposition(|column| letter(column) != ' ').map_or(0, |last| last + 1);
    for column in columns.iter().take(known) {
        let letter = letter(column);
        out.style(match letter {
            HATCH => Style::Plain,
            _ => Style::of_severity(column.severity.unwrap_or_default()),
        });
        add!(out, "{letter}");
    }
    line!(out)
}

/// Marks columns that have a gap beside a value, which the rows above may hide.
fn partly_unseen(out: &mut Out, columns: &[Column]) -> io::Result<()> {
    let is_both = |column: &Column| column.gap && column.range.is_some();
    let Some(last) = columns.iter().rposition(is_both) else { return Ok(()) };
    let letter = |column: &Column| if is_both(column) { HATCH } else { ' ' };
    let text: String = columns.iter().take(last + 1).map(letter).collect();
    line!(out, "{:>LABEL$} │{text}", "partly")
}

fn time_axis(out: &mut Out, drawing: &Drawing, width: usize, zone: &Zone) -> io::Result<()> {
    let span = drawing.to.saturating_sub(drawing.from).max(1) as f64;
    let mut marks = vec!['─'; width];
    let mut labels = String::new();
    for (time, text) in times(drawing.from, drawing.to, width / 16, zone) {
        let at = (time.saturating_sub(drawing.from) as f64 / span * width as f64) as usize;
        let length = text.chars().count();
        // no label is beyond the terminal's edge
        let begin = at.saturating_sub(length / 2).min(width.saturating_sub(length));
        let used = labels.chars().count();
        if at >= width || used > 0 && begin <= used {
            continue;
        }
        if let Some(mark) = marks.get_mut(at) {
            *mark = '┬';
        }
        labels.extend(std::iter::repeat_n(' ', begin - used));
        labels.push_str(&text);
    }
    let marks: String = marks.into_iter().collect();
    line!(out, "{:>LABEL$} └{marks}", "")?;
    line!(out, "{:>LABEL$}  {labels}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_its_last_digits() {
        assert_eq!(fitting("1.0000000001"), "1.0000000001");
        assert_eq!(fitting("0.50000000000003"), "…00000000003");
    }

    #[test]
    fn a_gap_beside_a_value_is_marked() {
        let column = |gap: bool, value: bool| {
            let mut column = Column::default();
            (column.gap, column.range) = (gap, value.then_some((1.0, 1.0)));
            column
        };
        let drawn = |columns: &[Column]| {
            let mut bytes = Vec::new();
            partly_unseen(&mut Out::new(&mut bytes), columns).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let columns = [column(true, false), column(true, true), column(false, true)];
        assert_eq!(drawn(&columns), format!("{:>LABEL$} │ {HATCH}\n", "partly"));
        assert_eq!(drawn(&[column(true, false), column(false, true)]), "", "the rows above show these");
    }
}
