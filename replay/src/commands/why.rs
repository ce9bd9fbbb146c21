//! `iocreplay why`

use super::command::{Command, Outcome};
use super::options::{
    by_place, json, reading, since, time, time_zone, ByPlace, Json, Reading, Since, TimeZone,
};
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::nothing_found::{Held, Narrowed, NoChange};
use crate::out::Out;
use crate::output;
use crate::time::{Boundary, Zone};
use crate::{suggest, Logs};
use epics::Pv;
use iocrec_cli::command;
use std::path::Path;

command! {
    /// Show the cause of the last change of a PV: the chain that led to it, from the person, scan or event at its root.
    #[argh(subcommand, name = "why")]
    pub struct Why {
        /// the last change before this time (default: the last of all)
        #[argh(option, arg_name = "time")]
        pub at: Option<String>,
        /// record, or record.FIELD
        #[argh(positional)]
        pub pv: String,
    } with since: Since, by_place: ByPlace, json: Json, time_zone: TimeZone, reading: Reading
}

impl Command for Why {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn operands(&self) -> &'static str {
        "PV "
    }

    /// Reports a log in place of the PV. A record can have the name of an existing file, so this is wrong only if an
    /// operand that is not a log is in place of the logs.
    fn check(&self) -> Result<(), UsageError> {
        let is_log = Path::new(&self.pv).exists() || self.pv.ends_with(".iocrec");
        if !is_log || !(self.logs.is_empty() || self.logs.iter().any(|log| !log.exists())) {
            return Ok(());
        }
        let pv = self.logs.iter().find(|log| !log.exists());
        let logs = self.logs.iter().filter(|log| log.exists());
        Err(UsageError::LogBeforePv {
            log: self.pv.clone(),
            pv: pv.map_or("PV".into(), |pv| pv.to_string_lossy().into_owned()),
            others: logs.map(|log| log.to_string_lossy().into_owned()).collect(),
        })
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = self.reading().open()?;
        let filter = Filter {
            since: time(&zone, &self.since, Boundary::Start, &logs)?,
            until: time(&zone, &self.at, Boundary::End, &logs)?,
            ..ByPlace::from(self).filter()
        };
        let mut search = output::why::Why::new(&self.pv, &filter);
        logs.replay(&filter).for_each(|chain| search.take(chain));
        let Some(answer) = search.answer(&zone) else {
            return Err(Failure::NoChange(self.no_change(&logs.without_notices(), &filter, &zone)));
        };
        if self.json {
            answer.write_json(out)?;
        } else {
            answer.write_text(out)?;
        }
        Ok(Outcome::from(&logs))
    }
}

impl Why {
    /// The reason why nothing is known of the PV.
    fn no_change(&self, logs: &Logs, filter: &Filter, zone: &Zone) -> NoChange {
        let pv = self.pv.clone();
        let names = suggest::names(logs);
        let record = Pv::new(&pv).record;
        if !names.contains(record) {
            let suggestions = suggest::nearest(&names, record);
            return NoChange::Unknown { pv, suggestions };
        }
        let held = Held::look(logs);
        if let Some(lacks) = held.lacks(filter, zone) {
            return NoChange::NothingAskedFor { pv, lacks };
        }
        let narrowed = match (&self.at, &self.since, &self.ioc, &self.host) {
            (None, None, None, None) => Narrowed::No,
            (_, _, None, None) => Narrowed::ToTime,
            _ => Narrowed::ToPlace,
        };
        NoChange::Never { pv, time: held.time(zone), narrowed }
    }
}
