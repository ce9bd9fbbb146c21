//! Formats of values over time. To add one, add a file here and a row below.

pub mod databrowser;
pub mod jsonl;
pub mod text;

pub use self::text::units;

use super::format::Format;
use super::rows::{self, Row};
use crate::model::history::ValueLine;
use crate::out::Out;
use crate::time::Zone;
use std::io;

/// The formats; the first is the default.
pub static FORMATS: [Format<ValueLine>; 4] =
    [rows::text(), rows::jsonl(), rows::csv(), databrowser::format()];

impl Row for ValueLine {
    type Line<'a> = jsonl::Line;

    fn line<'a>(&'a self, zone: &'a Zone) -> jsonl::Line {
        jsonl::line(self, zone)
    }

    fn text(&self, zone: &Zone) -> String {
        text::text(self, zone).0
    }

    fn write_text(&self, out: &mut Out, zone: &Zone) -> io::Result<()> {
        let (text, at) = text::text(self, zone);
        rows::write_with_alarm(out, &text, at, self.alarm)
    }
}
