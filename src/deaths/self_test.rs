//! Tries the programs on a child of this process: it is killed by a signal whose default is to dump core, and both what
//! was sent and what was delivered must be told, with the sender, and with the words that lie on the child's stack.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::time::{Duration, Instant};

use crate::bpf::failure::Failure;
use crate::bpf::table::MapError;
use crate::deaths::event::{Delivered, Event, Sent, What};
use crate::deaths::programs::Deaths;
use crate::linux::process;
use crate::linux::reader::Inspection;
use crate::linux::victim::{Victim, MARK};

/// Longest wait for events that are already on their way.
const WAIT: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);
/// Time for reading where this program's code lies.
const OWN_TIME: Duration = Duration::from_secs(20);

/// What the programs can tell of a crash beside signal and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// Registers and stack.
    Whole,
    /// Where the thread stood.
    Place,
    /// Nothing.
    Nothing,
}

/// Why the programs are not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelfTestError {
    /// There could be no child.
    NoChild(Failure),
    /// The map has no room.
    Map(MapError),
    /// The death of the child was not told.
    Untold,
    /// The same, in a PID namespace that is not the first.
    PidNamespace,
    /// The sender is wrong.
    Sender,
    /// Where it stood is wrong.
    Place,
    /// The stack is wrong.
    Stack,
}

impl Display for SelfTestError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the test on a child failed: ")?;
        match self {
            SelfTestError::NoChild(why) => write!(f, "there was none: {why}"),
            SelfTestError::Map(why) => why.fmt(f),
            SelfTestError::Untold => f.write_str("its death was not told"),
            SelfTestError::PidNamespace => f.write_str(
                "iocrec runs in a PID namespace of its own, where processes have other numbers; start its container \
                 in that of the host",
            ),
            SelfTestError::Sender => f.write_str("who killed it was told wrong"),
            SelfTestError::Place => f.write_str("where it stood was told wrong"),
            SelfTestError::Stack => f.write_str("its stack was told wrong"),
        }
    }
}

impl std::error::Error for SelfTestError {}

/// Tries the programs.
///
/// # Errors
/// They are unreliable.
pub fn run(deaths: &mut Deaths) -> Result<Tried, SelfTestError> {
    let no_child = |error: io::Error| SelfTestError::NoChild(Failure::from(error));
    let victim = Victim::start().map_err(no_child)?;
    let pid = victim.pid();
    deaths.watch(pid).map_err(SelfTestError::Map)?;
    let killed = victim.kill(libc::SIGQUIT);
    let events = killed.map(|_| events_of(deaths, pid));
    deaths.forget(pid);
    let own = std::process::id();
    // a busy machine may take longer than the loop would wait
    let look = Inspection::begin(own, u64::MAX, OWN_TIME);
    let code = process::executable(own);
    drop(look);
    // the child has the code of its parent
    judge(&events.map_err(no_child)?, &code)
}

/// The events of a process that has ended: two, if all is well.
fn events_of(deaths: &Deaths, pid: u32) -> Vec<Event> {
    let begin = Instant::now();
    let mut events = Vec::new();
    loop {
        events.extend(deaths.take().into_iter().filter(|event| event.pid == pid));
        if events.len() >= 2 || begin.elapsed() > WAIT {
            return events;
        }
        std::thread::sleep(PAUSE);
    }
}

fn judge(events: &[Event], code: &[(u64, u64)]) -> Result<Tried, SelfTestError> {
    let untold = || match process::is_first_pid_namespace() {
        true => SelfTestError::Untold,
        false => SelfTestError::PidNamespace,
    };
    let signal = libc::SIGQUIT as u16;
    let sent = events.iter().find_map(|event| match &event.what {
        What::Sent(sent) if sent.signal == signal => Some(sent),
        _ => None,
    });
    let delivered = events.iter().find_map(|event| match &event.what {
        What::Delivered(delivered) if delivered.signal == signal => Some(delivered),
        _ => None,
    });
    let (Some(Sent { sender, uid, .. }), Some(Delivered { handled: false, ip, sp, stack, .. })) =
        (sent, delivered)
    else {
        return Err(untold());
    };
    if (*sender, *uid) != (std::process::id(), nix::unistd::getuid().as_raw()) {
        return Err(SelfTestError::Sender);
    }
    if *ip == 0 {
        return Ok(Tried::Nothing);
    }
    if !code.iter().any(|(start, end)| (start..end).contains(&ip)) {
        return Err(SelfTestError::Place);
    }
    if *sp == 0 {
        return Ok(Tried::Place);
    }
    let mark: Vec<u8> = MARK.iter().flat_map(|word| word.to_ne_bytes()).collect();
    match stack.windows(mark.len()).any(|bytes| bytes == mark) {
        true => Ok(Tried::Whole),
        false => Err(SelfTestError::Stack),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deaths::programs::Lacks;
    use crate::linux::clock;
    use crate::not_run::{is_root, not_run, Needs};
    use iocrec_log::event::Tier;

    #[test]
    fn both_tiers_tell_how_a_child_was_killed() {
        if !is_root() {
            return not_run("deaths::both_tiers_tell_how_a_child_was_killed", Needs::Root);
        }
        let (deaths, lacks) = Deaths::open(&[Tier::Ring]);
        assert!(deaths.is_some() && lacks.is_empty(), "{lacks:?}");
        tells_the_end(deaths);
        // SAFETY: constant C strings; the mounts are this thread's alone. What fails shows below.
        unsafe {
            let (none, root, tracefs) = (c"none".as_ptr(), c"/".as_ptr(), c"tracefs".as_ptr());
            let private = libc::MS_REC | libc::MS_PRIVATE;
            if libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, root, std::ptr::null(), private, std::ptr::null()) == 0
            {
                libc::mount(tracefs, c"/sys/kernel/tracing".as_ptr(), tracefs, 0, std::ptr::null());
            }
        }
        let (deaths, lacks) = Deaths::open(&[Tier::Perf]);
        match lacks.as_slice() {
            // this kernel has raw tracepoints, so the address is told
            [Lacks::Parts { tier: Tier::Perf, place: false, address: false }] => tells_the_end(deaths),
            // tracefs is not mounted
            [Lacks::Attach(Tier::Perf, why)] => {
                not_run("deaths::perf", Needs::Kernel(format!("tracepoints: {why}")));
            }
            other => panic!("{other:?}"),
        }
        // what kernels before 4.17 have, and this one, too
        match Deaths::tried(Tier::Perf, &["generated", "delivers"], &mut Vec::new()) {
            Ok((_, tried)) => assert_eq!(tried, Tried::Place),
            Err(Lacks::Attach(..)) => {}
            Err(other) => panic!("{other}"),
        }
    }

    /// When a child ended, whenever that is looked at.
    fn tells_the_end(deaths: Option<Deaths>) {
        let deaths = deaths.expect("its programs");
        let victim = Victim::start().expect("a child");
        let pid = victim.pid();
        deaths.watch(pid).expect("room in the map");
        let begin = clock::monotonic();
        victim.kill(libc::SIGTERM).expect("it ends");
        let (ended, now) = (deaths.ended(pid), clock::monotonic());
        assert!((begin..=now).contains(&ended), "{begin} {ended} {now}");
    }

    #[test]
    fn without_tracefs_the_remedy_is_told() {
        let lacks =
            |errno| Lacks::Attach(Tier::Perf, Failure { errno, complaint: "failed".into() }).to_string();
        let line = lacks(libc::ENOENT);
        if process::is_first_pid_namespace() {
            assert!(
                line.contains("mount -t tracefs tracefs /sys/kernel/tracing") && !line.contains("failed"),
                "{line}"
            );
        } else {
            // there it would help nobody
            assert!(line.contains("PID namespace") && !line.contains("tracefs"), "{line}");
        }
        assert!(lacks(libc::EACCES).ends_with("(failed)"));
    }

    #[test]
    fn a_wrong_sender_place_or_stack_is_refused() {
        let sent = |sender| {
            let sent = Sent {
                signal: 3,
                code: 0,
                sender,
                uid: nix::unistd::getuid().as_raw(),
                program: String::new(),
                left_out: 0,
            };
            Event { time: 1, pid: 2, what: What::Sent(sent) }
        };
        let delivered = |ip, sp, stack: &[u8]| {
            let delivered = Delivered {
                tid: 2,
                name: String::new(),
                signal: 3,
                code: 0,
                address: None,
                handled: false,
                ip,
                sp,
                from: 0,
                stack: stack.to_vec(),
            };
            Event { time: 1, pid: 2, what: What::Delivered(delivered) }
        };
        let own = std::process::id();
        let judge = |events: &[Event]| judge(events, &[(0x1000, 0x2000)]);
        assert_eq!(judge(&[sent(own), delivered(0, 0, &[])]), Ok(Tried::Nothing));
        assert_eq!(judge(&[sent(own), delivered(0x1000, 0, &[])]), Ok(Tried::Place));
        assert_eq!(judge(&[sent(own), delivered(0x2000, 0, &[])]), Err(SelfTestError::Place));
        assert_eq!(judge(&[sent(own), delivered(0x1fff, 8, &[0; 64])]), Err(SelfTestError::Stack));
        assert_eq!(judge(&[sent(own + 1), delivered(0x1000, 0, &[])]), Err(SelfTestError::Sender));
        assert!(judge(&[sent(own)]).is_err() && judge(&[]).is_err());
    }
}
