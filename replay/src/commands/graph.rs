//! `iocreplay graph`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, reading, selection, since, time_zone, until, with_aliases, ByPlace, ByPv, ByWho,
    Chosen, Reading, Since, TimeZone, Until,
};
use crate::answers::recorded::Recorded;
use crate::failure::Failure;
use crate::model::links_seen::LinksSeen;
use crate::model::naming::Naming;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::graph::{Graph as Model, FORMATS};
use crate::terminal::Terminal;
use crate::words::counted;
use iocrec_cli::command;

command! {
    /// Show the links that were followed, with rates: which record made which other process.
    #[argh(subcommand, name = "graph")]
    pub struct Graph {
        /// output format: text (default), dot (Graphviz), mermaid, jsonl or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<Model>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho, by_place: ByPlace, time_zone: TimeZone,
        reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Model>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for Graph {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_recorded_twice(&filter);
        let (mut naming, mut links) = (Naming::default(), LinksSeen::default());
        for chain in logs.chains(&filter) {
            links.take(&chain, &filter, &mut naming);
        }
        let graph = Model::new(&links, &naming, &Recorded::read(&logs, &filter));
        let mut writer = (self.format.writer)(&zone);
        writer.write(out, &graph)?;
        if links.left_out > 0 {
            let links = counted(links.left_out, "further link");
            Terminal.report(&format_args!("left out: {links}; narrow the question with --pv"));
        }
        if self.format.name == "mermaid" && graph.is_too_large_for_mermaid() {
            let settings = "unless its maxEdges and maxTextSize allow more";
            Terminal.report(&format_args!(
                "Mermaid draws 500 arrows and 50,000 characters at most, {settings}; narrow the question with --pv, or take \
                 --format dot"
            ));
        }
        let is_empty = graph.is_empty();
        if is_empty {
            Terminal.report(&explain(Kind::Chains, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
