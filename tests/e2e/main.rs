//! Whole-program tests: real IOCs, real clients, real BPF programs, real logs.
//!
//! They need root, and what scripts/setup installs; see [`rig`] for what they do without.

#[path = "../pva/messages.rs"]
mod pva_messages;
#[path = "../rig/mod.rs"]
mod rig;

mod array_fields;
mod attaching;
mod attacks;
mod bulk;
mod capture_files;
mod chains;
mod changing;
mod channels;
mod console;
mod counted;
mod deaths;
mod debuggers;
mod devices;
mod disabled;
mod disks;
mod errors;
mod files;
mod flood;
mod following;
mod forged;
mod harmless;
mod health;
mod hostile;
mod inherited;
mod injected;
mod inputs;
mod life;
mod linkage;
mod live;
mod loops;
mod moving;
mod namesakes;
mod namespaces;
mod odd_streams;
mod other_users;
mod otherside;
mod outcomes;
mod packaging;
mod paths;
mod pins;
mod plant;
mod pods;
mod processing;
mod programs_32_bit;
mod puts;
mod pvaccess;
mod pvaccess_bulk;
mod pvaccess_clients;
mod pvaccess_memory;
mod pvaccess_network;
mod pvaccess_records;
mod pvaccess_values;
mod queues;
mod records;
mod restricted_machines;
mod scanning;
mod scripts;
mod short_clients;
mod snapshots;
mod statements;
mod streams;
mod stuck;
mod thinning;
mod time_links;
mod toolchain;
mod traffic;
mod translated;
mod undo;
mod versions;
