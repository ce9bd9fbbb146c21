//! Inspects processes on its own threads: finds IOCs, places their probes, follows them, looks things up.
//!
//! The recorder's loop never waits for another process. It passes the existing processes to [`Inspector`], sends it a
//! [`Request`] for each fact that it needs, and takes [`Report`]s when it has time.
//!
//! | file | job |
//! |---|---|
//! | `discovery` | notices new processes without listing /proc |
//! | `queue` | decides which process is inspected next; users share the threads by time |
//! | `pool` | the inspector as the loop sees it; starts the threads |
//! | `shared` | state that the threads share with each other and with the loop |
//! | `known` | state of a process that is kept between inspections |
//! | `worker` | the work of one thread: inspections and requests, whichever is due |
//! | `inspection` | one inspection of a process: whether it is an IOC, and what has changed |
//! | `lookup` | answers requests |
//! | `request`, `report` | messages from the loop, and messages to it |

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
