//! Formats of the put log. To add one, add a file here and a row below.

pub mod jsonl;
#[cfg(test)]
pub mod sample;
pub mod text;

use super::format::Format;
use super::rows::{self, Row};
use crate::model::putlog::PutLine;
use crate::out::{add, line, Out};
use crate::terminal::style::Style;
use crate::time::Zone;
use std::io;

/// The formats; the first is the default.
pub static FORMATS: [Format<PutLine>; 3] = rows::formats();

impl Row for PutLine {
    type Line<'a> = jsonl::Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> jsonl::Line<'a> {
        jsonl::line(self, zone)
    }

    fn text(&self, zone: &Zone) -> String {
        text::parts(self, zone).concat()
    }

    fn write_text(&self, out: &mut Out, zone: &Zone) -> io::Result<()> {
        let [before, status, after] = text::parts(self, zone);
        add!(out, "{before}");
        out.style(Style::of_status(&self.status));
        add!(out, "{status}");
        out.style(Style::Plain);
        line!(out, "{after}")
    }
}
