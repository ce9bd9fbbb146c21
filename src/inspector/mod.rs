//! Inspects processes on threads of its own: finds IOCs, places their probes, follows them, looks things up.
//!
//! The recorder's loop never waits for another process. It tells [`Inspector`] which processes exist, sends it a
//! [`Request`] for each fact that it needs, and takes [`Report`]s when it has time.
//!
//! | file | job |
//! |---|---|
//! | `discovery` | notices new processes without listing /proc |
//! | `queue` | decides which process is inspected next; users share the threads by time |
//! | `pool` | the inspector as the loop sees it; starts the threads |
//! | `shared` | what the threads share with each other and with the loop |
//! | `known` | what is remembered of a process between inspections |
//! | `worker` | what one thread does: inspections and requests, whichever is due |
//! | `inspection` | one inspection of a process: is it an IOC? what has become of it? |
//! | `lookup` | answers requests |
//! | `request`, `report` | what the loop sends, and what it gets |

mod discovery;
mod inspection;
mod known;
mod lookup;
mod pool;
mod queue;
mod report;
mod request;
mod shared;
mod worker;

pub use discovery::{Discovery, Started};
pub use inspection::Scope;
pub use pool::Inspector;
pub use report::{CaServer, Finding, FoundRecord, ProcessInfo, Report, ServedClient, DATABASE_GONE};
pub use request::Request;
