//! `iocreplay export`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, reading, selection, since, time_zone, until, with_aliases, ByPlace, ByPv, ByWho,
    Chosen, Reading, Since, TimeZone, Until,
};
use crate::destination::Destination;
use crate::failure::{Failure, UsageError};
use crate::nothing_found::{explain, mismatch, Kind};
use crate::out::{line, Out};
use crate::tables::export::{self, Order};
use crate::tables::schema::Of;
use crate::tables::Format;
use crate::terminal::Terminal;
use crate::words::counted;
use iocrec_cli::command;
use std::path::{Path, PathBuf};

command! {
    /// Write tables for DuckDB, ClickHouse, Spark and the like into a directory: puts, processing, values, alarms, chains,
    /// circuits, iocs, losses, health. Exporting a longer log into the same directory replaces what is there of it.
    #[argh(subcommand, name = "export")]
    pub struct Export {
        /// write Parquet files into this directory
        #[argh(option, arg_name = "dir")]
        pub parquet: Option<PathBuf>,
        /// write JSON lines into this directory
        #[argh(option, arg_name = "dir")]
        pub ndjson: Option<PathBuf>,
        /// write CSV files into this directory
        #[argh(option, arg_name = "dir")]
        pub csv: Option<PathBuf>,
        /// write only this table; repeatable
        #[argh(option, arg_name = "name", from_str_fn(parse_table))]
        pub table: Vec<Of>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_table(name: &str) -> Result<Of, String> {
    Of::find(name).ok_or_else(|| {
        let names: Vec<&str> = Of::ALL.iter().map(|of| of.table().name).collect();
        format!("unknown table '{name}'; choose {}", names.join(", "))
    })
}

impl Export {
    /// The option that names the directory, the directory, and the format of its files.
    fn destination(&self) -> Result<(&'static str, &Path, Format), UsageError> {
        let given = [
            ("--parquet", &self.parquet, Format::Parquet),
            ("--ndjson", &self.ndjson, Format::JsonLines),
            ("--csv", &self.csv, Format::Csv),
        ];
        let mut given = given
            .into_iter()
            .filter_map(|(option, directory, format)| Some((option, directory.as_deref()?, format)));
        match (given.next(), given.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(UsageError::ExportWhere),
        }
    }

    /// The tables, each once.
    fn tables(&self) -> Vec<Of> {
        let is_wanted = |of: &Of| self.table.is_empty() || self.table.contains(of);
        Of::ALL.into_iter().filter(is_wanted).collect()
    }
}

impl Command for Export {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn check(&self) -> Result<(), UsageError> {
        let (option, directory, _) = self.destination()?;
        if self.reading().offsets().is_auto() {
            return Err(UsageError::AutoWhileGrowing("export"));
        }
        Destination::check_directory(option, directory, &self.logs)
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let (_, directory, format) = self.destination()?;
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = selection(&zone, &logs, &chosen)?;
        // an alias is found in a log, the options are the same for all
        let mut selection = export::selection(&filter);
        // rows with other times are other rows
        let offsets = self.reading().offsets();
        if !offsets.is_empty() {
            selection.push_str(if selection.is_empty() { "" } else { " " });
            selection.push_str(&offsets.to_string());
        }
        let filter = with_aliases(&logs, filter);
        logs.report_recorded_twice(&filter);
        let tables = self.tables();
        let order = Order { directory, format, selection, tables };
        let summary = export::export(&logs, &filter, &order)?;
        for (of, rows) in &summary.rows {
            line!(out, "{:<10}  {}", of.table().name, counted(*rows, "row"))?;
        }
        line!(out, "{} in {}", counted(summary.files as u64, "file"), directory.display())?;
        if summary.kept > 0 {
            Terminal.report(&format_args!(
                "left as they are: files of segments of which {} has more than the log, {} here",
                directory.display(),
                counted(summary.kept, "row")
            ));
        }
        if summary.kept == 0 && summary.rows.iter().all(|(_, rows)| *rows == 0) {
            Terminal.report(&explain(Kind::Chains, &logs.without_notices(), &filter, false, &zone));
        } else if let Some(line) = mismatch(&logs.without_notices(), &filter, &zone) {
            // IOCs and losses are listed whatever PV was asked for
            Terminal.report(&line);
        }
        Ok(Outcome::from(&logs))
    }
}
