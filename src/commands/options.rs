//! Options that several commands share. Each is defined here, once; a command names the groups that it takes
//! (`iocrec_cli::command!`).

use iocrec_cli::option_group;
use iocrec_log::event::Tier;

use crate::failure::{Failure, UsageError};
use crate::linux::chosen::Chosen;
use crate::linux::user::Users;
use crate::net::capture_file::CaptureFile;
use crate::probes::tiers::TierRequest;
use crate::recorder;
use crate::recorder::chain_sampling::Retain;
use crate::recorder::selection::Selection;

option_group! { $
    /// Scope and means of a recording.
    pub struct Capture as capture {
        /// end after this time, such as 30s (default: at SIGINT or SIGTERM)
        #[argh(option, arg_name = "time", from_str_fn(crate::commands::values::duration))]
        duration: Option<std::time::Duration>,

        /// capture packets on this interface of iocrec's own network namespace; repeatable (default: any)
        #[argh(option, arg_name = "name")]
        iface: Vec<String>,

        /// TCP port of a server of Channel Access or PVAccess, in addition to those of local servers, which are found automatically; repeatable
        #[argh(option, arg_name = "port", from_str_fn(crate::commands::values::port))]
        port: Vec<u16>,

        /// take packets from this capture file (pcap or pcapng, also packed with gzip; - is standard input) instead of
        /// from this machine: needs no IOC, root or BPF; repeatable, in the order of their times
        #[argh(option, arg_name = "file")]
        read: Vec<String>,

        /// only this process; repeatable (default: all IOCs, including those that start later)
        #[argh(option, arg_name = "pid", from_str_fn(crate::commands::values::pid))]
        pid: Vec<u32>,

        /// only records and PVs whose names match, such as 'SR:*'; repeatable
        #[argh(option, arg_name = "glob")]
        only: Vec<String>,

        /// no records and PVs whose names match; repeatable
        #[argh(option, arg_name = "glob")]
        exclude: Vec<String>,

        /// leave out puts
        #[argh(switch)]
        no_puts: bool,

        /// leave out searches, beacons, and other Channel Access traffic beside puts
        #[argh(switch)]
        no_net: bool,

        /// leave out processing
        #[argh(switch)]
        no_process: bool,

        /// leave out what the IOCs print
        #[argh(switch)]
        no_console: bool,

        /// lines that an IOC prints in a second and that are kept; further ones are counted (default: 20)
        #[argh(option, arg_name = "n", default = "20", from_str_fn(crate::commands::values::lines))]
        console_rate: u32,

        /// leave out what the IOCs use of the machine: CPU time, memory, descriptors
        #[argh(switch)]
        no_resources: bool,

        /// also record what the IOCs do with files, sockets and devices. This slows every system call of every process of
        /// this machine a little (0.1 to 0.2 microseconds)
        #[argh(switch)]
        io: bool,

        /// keep at most this number of process chains a second for each record that starts them; puts and what they
        /// cause are always kept. Also --max-chains
        #[argh(option, arg_name = "n", from_str_fn(crate::commands::values::chains))]
        thin: Option<u32>,

        /// leave out the command lines of IOCs; by default only what looks like a secret is removed
        #[argh(switch)]
        no_command_lines: bool,

        /// tier to use: auto, ring, perf or packet (default: auto, the best that works here)
        #[argh(
            option,
            arg_name = "tier",
            default = "crate::probes::tiers::TierRequest::Auto",
            from_str_fn(crate::commands::values::tier)
        )]
        tier: crate::probes::tiers::TierRequest,

        /// room in memory for what IOCs do in bursts while no processor is free for the recorder, such as 6M; rounded up
        /// (default: 768K, in the perf tier 640K for each processor)
        #[argh(option, arg_name = "size", from_str_fn(crate::commands::values::room))]
        buffer: Option<crate::bpf::transport::Room>,
    }
}

impl Capture {
    /// Opens the capture files to read, if any were named.
    ///
    /// # Errors
    /// One can't be opened, or other options ask for what no file has. `only`: the option that
    /// chooses processes, if one was given.
    pub fn files(&self, only: Option<&str>) -> Result<Vec<CaptureFile>, Failure> {
        if self.read.is_empty() {
            return Ok(Vec::new());
        }
        let refused = [
            (!self.iface.is_empty(), "--iface"),
            (!self.pid.is_empty(), "--pid"),
            (only.is_some(), only.unwrap_or_default()),
            (self.io, "--io"),
            (self.buffer.is_some(), "--buffer"),
            (!matches!(self.tier, TierRequest::Auto | TierRequest::Only(Tier::Packet)), "--tier"),
        ];
        if let Some((_, option)) = refused.into_iter().find(|(given, _)| *given) {
            let line =
                format!("{option} is about this machine, but --read takes packets from a file: leave it out");
            return Err(UsageError::Value(line).into());
        }
        if self.no_puts {
            return Err(UsageError::NoPutsInPacketTier.into());
        }
        if self.read.iter().filter(|path| *path == "-").count() > 1 {
            return Err(UsageError::Value("--read - can be given only once".into()).into());
        }
        self.read.iter().map(|path| Ok(CaptureFile::open(path)?)).collect()
    }

    /// The options as the recorder takes them.
    pub fn options(self, chosen: Chosen, retain: Option<Retain>) -> recorder::Options {
        let Capture { iface, .. } = self;
        recorder::Options {
            tier: self.tier,
            room: self.buffer.unwrap_or_default(),
            interfaces: if iface.is_empty() { vec!["any".into()] } else { iface },
            ports: self.port,
            pids: self.pid,
            chosen,
            selection: Selection::new(&self.only, &self.exclude),
            no_command_lines: self.no_command_lines,
            puts: !self.no_puts,
            net: !self.no_net,
            process: !self.no_process,
            console: !self.no_console,
            console_rate: self.console_rate,
            resources: !self.no_resources,
            io: self.io,
            snapshots: None,
            duration: self.duration,
            thin: self.thin,
            retain,
        }
    }
}

option_group! { $
    /// The processes that are inspected.
    pub struct ProcessChoice as process_choice {
        /// only processes of this user, a name or an id; repeatable (default: all users)
        #[argh(option, arg_name = "user")]
        user: Vec<String>,
        /// only processes in this pod or container: the uid or, in Kubernetes, name of the pod, or the id of the container
        /// or 12 first digits of it; a glob; repeatable (default: all processes)
        #[argh(option, arg_name = "glob")]
        pod: Vec<String>,
    }
}

impl ProcessChoice {
    /// The option that was given, if one was.
    pub fn given(&self) -> Option<&'static str> {
        [(&self.user, "--user"), (&self.pod, "--pod")].into_iter().find(|of| !of.0.is_empty()).map(|of| of.1)
    }

    /// The processes; looks the users up.
    pub fn chosen(self) -> Result<Chosen, Failure> {
        let users = Users::named(&self.user).map_err(|error| UsageError::Value(error.to_string()))?;
        Ok(Chosen::new(users, self.pod))
    }
}

option_group! { $
    /// The log.
    pub struct LogDirectory as log_directory {
        /// directory of the log
        #[argh(option, arg_name = "dir")]
        dir: std::path::PathBuf,
    }
}

option_group! { $
    /// Text or JSON.
    pub struct Json as json {
        /// write JSON instead of text
        #[argh(switch)]
        json: bool,
    }
}
