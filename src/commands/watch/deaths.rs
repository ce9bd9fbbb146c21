//! Signals, crashes and lost devices of IOCs, a line each.

use iocrec_log::context::Context;
use iocrec_log::event::{
    CallSiteId, Crash, IocId, QueueFill, SignalFrom, SignalSent, SlowClient, Stuck, StuckEnd, TcpConnection,
};
use iocrec_log::value::{named, push_name};

use crate::linux::ending::{no_process, signal_name};

/// Return addresses in a line.
const MOST: usize = 6;

fn name_of(ioc: IocId, context: &Context) -> &str {
    context.ioc(ioc).map_or("?", |ioc| ioc.name.as_str())
}

/// The line of a signal.
pub fn signal(sent: &SignalSent, context: &Context) -> String {
    let name = name_of(sent.ioc, context);
    let from = match sent.from {
        _ if sent.signal == 0 => return format!("Signals: {} more to {name}", sent.left_out),
        SignalFrom::Kernel => no_process(sent.code),
        SignalFrom::OutOfMemory => "the kernel for lack of memory".into(),
        SignalFrom::Process if context.ioc(sent.ioc).is_some_and(|ioc| ioc.pid == sent.pid) => {
            "itself".into()
        }
        SignalFrom::Process => {
            // a process chooses its name: it must not look like another user
            let mut program = String::new();
            push_name(&mut program, &sent.program);
            format!("pid {} ({program}, user {})", sent.pid, sent.user)
        }
    };
    let command = match sent.command.as_slice() {
        [] => String::new(),
        words => format!(": {}", words.join(" ")),
    };
    format!("Signal: {} to {name} by {from}{command}", signal_name(sent.signal.into()))
}

/// The line of a thread that stands still.
pub fn stuck_line(stuck: &Stuck, context: &Context) -> String {
    let name = |id| context.record(id).map(|record| record.name.to_string());
    format!("Stuck: {}: {}", name_of(stuck.ioc, context), stuck.sentence(None, &name))
}

/// The line of the end of that; `context` is that from before it.
pub fn runs_again(end: &StuckEnd, context: &Context) -> Option<String> {
    let stuck = context.stuck(end.id)?;
    let name = |id| context.record(id).map(|record| record.name.to_string());
    let standing = format!("at least {:.1} s", end.after.saturating_sub(stuck.since) as f64 / 1e9);
    let what = stuck.sentence(Some(&standing), &name);
    Some(format!("Stuck no more: {}: {what}", name_of(end.ioc, context)))
}

/// The line of a queue that fills, or does so no more.
pub fn queue(fill: &QueueFill, context: &Context) -> String {
    let record = fill.record.and_then(|id| context.record(id)).map(|record| record.name.to_string());
    let seconds = format!("{:.0} s", fill.last.saturating_sub(fill.since) as f64 / 1e9);
    let lasted = Some(seconds.as_str()).filter(|_| fill.is_over);
    format!("Queue: {}: {}", name_of(fill.ioc, context), fill.sentence(lasted, record.as_deref()))
}

/// The line of a device that hung up, or ceased to answer.
pub fn device(connection: &TcpConnection, context: &Context) -> Option<String> {
    (connection.is_over() && !connection.is_circuit()).then(|| {
        let name = name_of(connection.ioc, context);
        format!("Device: {name}: the connection with {} {}", connection.remote, connection.sentence())
    })
}

/// The line of a client that does not take what waits for it.
pub fn slow(client: &SlowClient, context: &Context) -> String {
    let circuit = client.circuit.and_then(|id| context.circuit(id));
    // whom a client claims to be must not go on like the rest of the line
    let mut user = String::new();
    push_name(&mut user, circuit.map_or("?", |circuit| circuit.user.as_str()));
    let name = name_of(client.ioc, context);
    let what = if client.is_over { "slow no more" } else { "slow" };
    format!("Client: {name}: {user} {} is {what}, {} bytes wait", client.client, client.unsent)
}

/// The line of a crash.
pub fn crashed(crash: &Crash, context: &Context) -> String {
    let place = |site: CallSiteId, offset: u64| {
        let site = context.call_site(site)?;
        let name = if site.function.is_empty() { &site.module } else { &site.function };
        Some(format!("{name}+{offset:#x}"))
    };
    let mut line = format!("Crash: {} {}", name_of(crash.ioc, context), signal_name(crash.signal.into()));
    if let Some(address) = crash.address {
        line += &format!(" at address {address:#x}");
    }
    if let Some(place) = place(crash.site, crash.offset) {
        line += &format!(" in {place}");
    }
    line += &format!(", thread {}", named(&crash.thread));
    if let Some(record) = crash.record.and_then(|id| context.record(id)) {
        line += &format!(", while processing {}", record.name);
    }
    if crash.handled {
        line += "; a handler of its own got it";
    }
    let frames: Vec<String> =
        crash.frames.iter().filter_map(|frame| place(frame.site, frame.offset)).take(MOST).collect();
    if !frames.is_empty() {
        line += &format!("; on its stack: {}", frames.join(" "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Address, Circuit, Fact, Origin, TcpEnd};

    /// Who kills an IOC may name his program so that another user seems to have done it.
    #[test]
    fn a_sender_s_name_is_one_word() {
        let sent = |program: &str| SignalSent {
            ioc: 1,
            signal: 9,
            code: 0,
            from: SignalFrom::Process,
            pid: 12,
            uid: 1000,
            user: "eve".into(),
            program: program.into(),
            command: Vec::new(),
            left_out: 0,
        };
        let line = |program: &str| signal(&sent(program), &Context::default());
        assert_eq!(line("bash"), "Signal: SIGKILL to ? by pid 12 (bash, user eve)");
        assert_eq!(line("x, user root"), "Signal: SIGKILL to ? by pid 12 (\"x, user root\", user eve)");
    }

    /// Nor may a client claim to be slow somewhere else.
    #[test]
    fn a_slow_client_s_claim_is_one_word() {
        let end = |port| TcpEnd { ip: vec![10, 0, 0, 1], port };
        let client = SlowClient {
            ioc: 1,
            client: end(5000),
            server: end(5064),
            circuit: Some(1),
            since: 0,
            is_over: false,
            unsent: 7,
            window_closed: true,
            updates: None,
            is_whole: true,
        };
        let line = |user: &str| {
            let address = Address { ip: 0x0a00_0001, port: 5000 };
            let (user, host, origin) = (user.to_owned(), String::new(), Origin::Opened);
            let circuit = Circuit { id: 1, client: address, server: address, user, host, minor: 13, origin };
            let mut context = Context::default();
            context.apply(0, &Fact::from(circuit));
            slow(&client, &context)
        };
        assert_eq!(line("ann"), "Client: ?: ann 10.0.0.1:5000 is slow, 7 bytes wait");
        let told = "Client: ?: \"bob 10.9.9.9:1\" 10.0.0.1:5000 is slow, 7 bytes wait";
        assert_eq!(line("bob 10.9.9.9:1"), told);
    }
}
