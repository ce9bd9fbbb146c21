//! Recording from capture files, in place of the machine: see [`capture_files`](super::sources::capture_files).

use std::cell::RefCell;
use std::rc::Rc;

use crate::ca;
use crate::linux::procfs::Proc;
use crate::linux::signals;
use crate::net::capture_file::CaptureFile;
use crate::net::flows::Flows;
use crate::net::service::Ports;
use crate::protocols::datagrams::Selection;
use crate::protocols::MARKS;
use crate::pva;
use crate::recorder::capture_clock::CaptureClock;
use crate::recorder::env::{Machine, Run};
use crate::recorder::options::Options;
use crate::recorder::run::Loop;
use crate::recorder::sink::Sink;
use crate::recorder::sources::capture_files::CaptureFiles;

pub use crate::recorder::sources::capture_files::Outcome;

/// Reads capture files and hands their facts to the sink, until their end, a signal or the duration, which is the
/// capture's. Lines for the user go to `say`. `clock` must be new.
pub fn read(
    mut options: Options,
    files: Vec<CaptureFile>,
    clock: &CaptureClock,
    sink: &mut dyn Sink,
    say: &mut dyn FnMut(&str),
) -> Outcome {
    let outcome = Rc::new(RefCell::new(Outcome::default()));
    let mut ports = Ports::of(&ca::SERVICE, &ca::servers::usual_ports());
    ports.add(&ca::SERVICE, &options.ports);
    // servers of either protocol may have them
    let both = ports.get(&ca::SERVICE).to_vec();
    ports.add(&pva::SERVICE, &both);
    let named = options.ports.iter().map(|port| ("EPICS_CAS_SERVER_PORT", port.to_string()));
    let named: Vec<_> = named.chain(ca::servers::port_variables()).collect();
    let selected = Selection::of(named.iter().map(|(name, value)| (*name, value.as_str())));
    let flows = Flows::new(MARKS, ports);
    let duration = options.duration.take();
    let machine = Machine {
        clock: Box::new(clock.clone()),
        // nothing asks for them
        procfs: Box::new(Proc),
        is_told_to_end: signals::ended,
    };
    let mut recorder = Loop::new(options, machine, None, Run::default()).of_file();
    recorder.add(CaptureFiles::new(files, flows, selected, clock.clone(), duration, outcome.clone()));
    recorder.run(sink, say);
    outcome.take()
}
