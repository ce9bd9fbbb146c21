//! What a traced process may die of: the signals that it was sent and its faults, until its end is in the log.
//!
//! Its end says why it died only as far as that is known: a signal that was sent is named as the cause only if the wait
//! status has its number, and every other sender of it is named, too.

use iocrec_log::event::SignalFrom;
use iocrec_log::value::named;

use crate::deaths::Delivered;
use crate::ioc::stack::Place;
use crate::linux::ending::{no_process, signal_name};

/// Signals and faults that are remembered, the latest.
const MOST: usize = 16;
/// Within this time a signal or a fault has to do with a later one, nanoseconds: a handler may write a crash report
/// before it ends the process.
const RELATED: u64 = 10_000_000_000;
/// Longest time from the kernel's SIGKILL for lack of memory until it says whom it has chosen, nanoseconds.
const CHOSEN: u64 = 1_000_000_000;
/// The same of a SIGKILL that a process seems to have sent: before Linux 4.20 the kernel's look like one of whoever needed memory.
/// Interrupts may come between the two.
const CHOSEN_AT_ONCE: u64 = 1_000_000;
/// Longest wait for the wait status and for the names of a crash, nanoseconds.
pub const PATIENCE: u64 = 1_000_000_000;
/// An end that may be so long past when it is seen is seen late, nanoseconds: the recorder looks at once, and each second.
const LATE: u64 = 2_000_000_000;
/// Bytes of stack below the stack pointer that a function may touch before it moves it, and pages between a stack and
/// what is below it.
const NEAR: u64 = 8192;

/// A signal that was sent.
#[derive(Clone, Debug)]
pub struct Signal {
    /// Monotonic time.
    pub time: u64,
    /// Its number.
    pub number: u16,
    /// Who sent it.
    pub from: SignalFrom,
    /// Its `si_code`.
    pub code: i32,
    /// Whether that was the process itself.
    pub own: bool,
    /// Whether the kernel's SIGKILL for lack of memory would look the same: before Linux 4.14.
    pub or_kernel: bool,
    /// The process that sent it; 0: the kernel.
    pub pid: u32,
    /// Name of that process, as it may call itself.
    pub program: String,
    /// Its user.
    pub user: String,
}

/// A fault, or the delivery of a deadly signal.
#[derive(Clone, Debug)]
struct Fault {
    time: u64,
    signal: u16,
    handled: bool,
    /// Whether the thread caused it itself.
    own: bool,
    /// Where, for people.
    place: String,
    thread: String,
}

/// A crash whose names have been asked for.
#[derive(Debug)]
pub struct Asked {
    /// Its number.
    pub number: u32,
    /// Monotonic time.
    pub time: u64,
    /// The crash.
    pub delivered: Delivered,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Dying {
    signals: Vec<Signal>,
    faults: Vec<Fault>,
    /// When the kernel chose it to get memory back.
    out_of_memory: Option<u64>,
    /// Signals that were not told, when the last one that was told was sent, and now.
    left_out: (u64, u64),
    /// Crashes whose names are not known yet.
    pub asked: Vec<Asked>,
    /// Number of crashes so far.
    pub crashes: u32,
    /// When its end was noticed, monotonic.
    pub noticed: Option<u64>,
    /// Time from when it was last known to live until then, nanoseconds.
    pub late: u64,
    /// When it ended, monotonic, as the kernel tells; 0 if it does not.
    pub ended: u64,
}

impl Dying {
    /// Notes a signal. `left_out`: signals that were not told until then.
    pub fn signal(&mut self, signal: Signal, left_out: u64) {
        if self.signals.len() >= MOST {
            self.signals.remove(0);
        }
        self.signals.push(signal);
        self.left_out = (left_out, left_out);
    }

    /// Notes that more signals were not told. Returns the number of those since the last time.
    pub fn not_told(&mut self, left_out: u64) -> u64 {
        let more = left_out.saturating_sub(self.left_out.1);
        self.left_out.1 = self.left_out.1.max(left_out);
        more
    }

    /// Notes that the kernel has chosen it to get memory back. Returns whether the kernel kills it for that.
    pub fn out_of_memory(&mut self, time: u64) -> bool {
        self.out_of_memory.get_or_insert(time);
        self.lacked_memory()
    }

    /// Whether the kernel killed it to get memory back. It also chooses processes that are about to end, whoever killed them
    /// or if nobody did: so its SIGKILL must have been the first, and just before.
    fn lacked_memory(&self) -> bool {
        let first = self.signals.iter().find(|sent| i32::from(sent.number) == libc::SIGKILL);
        self.out_of_memory.zip(first).is_some_and(|(chosen, sent)| {
            let most = if sent.from == SignalFrom::Kernel { CHOSEN } else { CHOSEN_AT_ONCE };
            sent.time <= chosen && chosen - sent.time < most
        })
    }

    /// Notes a crash, and its place where that was looked up: one without a file if there is none.
    pub fn crash(&mut self, time: u64, crash: &Delivered, place: Option<&Place>) {
        if self.faults.len() >= MOST {
            self.faults.remove(0);
        }
        let own = crash.code > 0;
        self.faults.push(Fault {
            time,
            signal: crash.signal,
            handled: crash.handled,
            own,
            place: if own { place_of(crash, place) } else { String::new() },
            thread: named(&crash.name),
        });
    }

    /// Whether something may still come that its end should tell.
    pub fn is_awaited(&self, now: u64, status_may_come: bool) -> bool {
        let waits = self.noticed.is_none_or(|noticed| now.saturating_sub(noticed) < PATIENCE);
        waits && (status_may_come || !self.asked.is_empty())
    }

    /// The time of its end, which was noticed by `now`: the kernel's own where the recorder was stopped meanwhile.
    pub fn time(&self, now: u64) -> u64 {
        let is_late = self.ended != 0 && now.saturating_sub(self.ended) >= LATE;
        if is_late {
            self.ended
        } else {
            now
        }
    }

    /// How it ended, by its wait status.
    pub fn how(&self, status: Option<i32>) -> String {
        let (signal, core) = match status {
            Some(status) if libc::WIFSIGNALED(status) => (libc::WTERMSIG(status), libc::WCOREDUMP(status)),
            Some(status) => return format!("exit status {}{}", libc::WEXITSTATUS(status), self.seen_late(0)),
            None => match self.certain() {
                Some(signal) => (signal.into(), false),
                None => {
                    let how = "its process is gone; this kernel does not tell how it ended".to_string();
                    return how + &self.seen_late(0);
                }
            },
        };
        let core = if core { ", with a core dump" } else { "" };
        let cause = u16::try_from(signal).map(|signal| self.cause(signal)).unwrap_or_default();
        format!("killed by {}{}{cause}{core}", signal_name(signal), self.seen_late(signal))
    }

    /// By how much its end was seen late, where that is much: no process waits for the recorder, which may have been stopped. Of the
    /// SIGKILL that it died of the time is known, of another end only when it still lived: handlers may take their time. Nothing if
    /// the end has its own time.
    fn seen_late(&self, signal: i32) -> String {
        if self.ended != 0 {
            return String::new();
        }
        let kills = |sent: &&Signal| signal == libc::SIGKILL && i32::from(sent.number) == signal;
        let sent = self.noticed.zip(self.signals.iter().find(kills));
        let (late, what) = match sent {
            Some((noticed, sent)) => (noticed.saturating_sub(sent.time), "sent"),
            None => (self.late, "up to"),
        };
        if late < LATE {
            return String::new();
        }
        format!(" ({what} {:.1} s before this was seen)", late as f64 / 1e9)
    }

    /// The signal that it must have died of, whatever its wait status is.
    fn certain(&self) -> Option<u16> {
        let killed = self.signals.iter().any(|signal| i32::from(signal.number) == libc::SIGKILL);
        let fault = self.faults.iter().rfind(|fault| !fault.handled).map(|fault| fault.signal);
        fault.or(killed.then_some(libc::SIGKILL as u16))
    }

    /// Whether it is known to die: its threads do nothing more, though a core dump may keep it for long.
    pub fn is_certain(&self) -> bool {
        self.certain().is_some() || self.asked.iter().any(|asked| !asked.delivered.handled)
    }

    /// What is known of the cause of a deadly signal, with a blank or a comma before it.
    fn cause(&self, signal: u16) -> String {
        let deadly = self.faults.iter().rfind(|fault| fault.signal == signal && !fault.handled);
        if let Some(fault) = deadly.filter(|fault| fault.own) {
            return fault.place.clone();
        }
        let before = |fault: &&Fault| {
            let then = deadly.map_or(u64::MAX, |deadly| deadly.time);
            fault.signal == signal && fault.handled && fault.own && then.saturating_sub(fault.time) < RELATED
        };
        if let Some(first) = deadly.and_then(|_| self.faults.iter().rfind(before)) {
            return format!("{}; a handler of its own got it first", first.place);
        }
        let thread = deadly.map_or(String::new(), |fault| format!(", thread {}", fault.thread));
        if i32::from(signal) == libc::SIGKILL && self.lacked_memory() {
            return ", sent by the kernel for lack of memory".into();
        }
        let Some(last) = self.signals.iter().rfind(|sent| sent.number == signal) else { return thread };
        let mut others: Vec<String> = Vec::new();
        for sent in self.signals.iter().rev().filter(|sent| sent.number == signal) {
            let related = last.time.saturating_sub(sent.time) < RELATED;
            let name = sent.sender();
            if related && name != last.sender() && !others.contains(&name) {
                others.push(name);
            }
        }
        let mut text = format!(", sent by {}", last.sender());
        match (last.own, others.is_empty()) {
            (_, true) => {}
            (true, false) => text += &format!(" after {} had sent it", others.join(" and ")),
            (false, false) => text += &format!(" or by {}", others.join(" or by ")),
        }
        if i32::from(signal) == libc::SIGKILL && last.or_kernel {
            text += " or by the kernel for lack of memory";
        }
        let (then, now) = self.left_out;
        if now > then {
            text += &format!(", or by another: {} later signals to it are not known", now - then);
        }
        if last.own {
            text += &thread;
        }
        text
    }
}

impl Signal {
    /// Who sent it, for people.
    fn sender(&self) -> String {
        match self.from {
            SignalFrom::Kernel => no_process(self.code),
            SignalFrom::OutOfMemory => "the kernel for lack of memory".into(),
            SignalFrom::Process if self.own && self.code == 0 && is_sent_alike(self.number) => {
                "itself or by the kernel".into()
            }
            SignalFrom::Process if self.own => "itself".into(),
            SignalFrom::Process => {
                // a process chooses its name: it must not look like another user
                let odd = |letter: char| matches!(letter, '(' | ')' | ',') || letter.is_control();
                let program = self.program.replace(odd, "?");
                format!("pid {} ({program}, user {})", self.pid, self.user)
            }
        }
    }
}

/// Whether the kernel sends a signal to a thread as kill() of itself would: of one whose file has come to its limit, or whose pipe
/// nobody reads.
fn is_sent_alike(signal: u16) -> bool {
    matches!(i32::from(signal), libc::SIGXFSZ | libc::SIGPIPE)
}

/// Where a thread's own fault was, for people, with a blank before it.
fn place_of(crash: &Delivered, place: Option<&Place>) -> String {
    let signal = i32::from(crash.signal);
    let mut text = String::new();
    // of the others it is the address of the instruction
    if let Some(address) = crash.address.filter(|_| signal == libc::SIGSEGV || signal == libc::SIGBUS) {
        text += &format!(" at address {address:#x}");
    }
    match place {
        Some(Place { function, .. }) if !function.is_empty() => text += &format!(" in {function}"),
        Some(Place { module, offset, .. }) if !module.is_empty() => {
            text += &format!(" in {module}+{offset:#x}");
        }
        Some(_) => text += &format!(" in no file's code (at {:#x})", crash.ip),
        None if crash.has_place() => text += &format!(" in unknown code at {:#x}", crash.ip),
        None => {}
    }
    text += &format!(", thread {}", named(&crash.name));
    if has_overflowed(crash) {
        text += ", whose stack had overflowed";
    }
    text
}

/// Whether the page that could not be accessed is where the stack pointer points to.
pub fn has_overflowed(crash: &Delivered) -> bool {
    let Some(address) = crash.address.filter(|_| i32::from(crash.signal) == libc::SIGSEGV) else {
        return false;
    };
    let top = crash.sp.saturating_add(crash.from.into());
    let near = crash.sp.saturating_sub(NEAR) <= address && address < top.max(crash.sp);
    // SEGV_MAPERR and SEGV_ACCERR of siginfo.h: no page, or a guard
    crash.sp != 0 && near && matches!(crash.code, 1 | 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn signal(time: u64, number: u16, pid: u32, user: &str) -> Signal {
        let program = "bash".to_string();
        Signal {
            time,
            number,
            from: SignalFrom::Process,
            code: 0,
            own: user.is_empty(),
            or_kernel: false,
            pid,
            program,
            user: user.into(),
        }
    }

    fn crash(signal: u16, code: i32, handled: bool) -> Delivered {
        Delivered {
            tid: 7,
            name: "cbLow".into(),
            signal,
            code,
            address: (code > 0).then_some(0x1230),
            handled,
            ip: 0x5000,
            sp: 0x7000_0000,
            from: 0,
            stack: Vec::new(),
        }
    }

    fn place() -> Place {
        Place { address: 0x5000, function: "subSegv".into(), module: "ioc".into(), offset: 4 }
    }

    #[test]
    fn nothing_is_known() {
        let dying = Dying::default();
        assert_eq!(dying.how(Some(3 << 8)), "exit status 3");
        assert_eq!(dying.how(Some(libc::SIGSEGV | 0x80)), "killed by SIGSEGV, with a core dump");
        assert!(dying.how(None).starts_with("its process is gone"));
    }

    #[test]
    fn a_sender_of_this_signal() {
        let mut dying = Dying::default();
        dying.signal(signal(SECOND, 15, 4711, "root"), 0);
        assert_eq!(dying.how(Some(15)), "killed by SIGTERM, sent by pid 4711 (bash, user root)");
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL", "of another signal nothing is known");
        assert_eq!(dying.how(Some(0)), "exit status 0");
        assert!(dying.how(None).starts_with("its process is gone"), "it may have had a handler");
        dying.signal(signal(2 * SECOND, 9, 12, "op"), 0);
        assert_eq!(dying.how(None), "killed by SIGKILL, sent by pid 12 (bash, user op)");
    }

    /// As where the recorder was stopped meanwhile.
    #[test]
    fn an_end_that_is_seen_late() {
        let mut dying = Dying { noticed: Some(3 * SECOND - 1), ..Dying::default() };
        dying.signal(signal(SECOND, 9, 12, "op"), 0);
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL, sent by pid 12 (bash, user op)");
        dying.noticed = Some(7 * SECOND);
        let how = "killed by SIGKILL (sent 6.0 s before this was seen), sent by pid 12 (bash, user op)";
        assert_eq!(dying.how(Some(9)), how);
        dying.signal(signal(SECOND, 15, 12, "op"), 0);
        let how = dying.how(Some(15));
        assert!(!how.contains("seen"), "a handler may take its time: {how}");
        dying.late = 5 * SECOND;
        let how = "killed by SIGTERM (up to 5.0 s before this was seen), sent by pid 12 (bash, user op)";
        assert_eq!(dying.how(Some(15)), how);
        assert_eq!(dying.how(Some(9 << 8)), "exit status 9 (up to 5.0 s before this was seen)");
        assert_eq!(dying.time(9 * SECOND), 9 * SECOND);
        // the kernel tells
        dying.ended = 2 * SECOND;
        assert_eq!((dying.how(Some(9 << 8)).as_str(), dying.time(9 * SECOND)), ("exit status 9", 2 * SECOND));
        assert_eq!(dying.time(3 * SECOND), 3 * SECOND, "it was noticed at once");
        let unknown = Dying { late: 5 * SECOND, ..Dying::default() };
        assert!(unknown.how(None).ends_with("how it ended (up to 5.0 s before this was seen)"));
    }

    #[test]
    fn no_process_sent_it() {
        for (code, who) in [(0x80, "the kernel"), (-2, "a timer, a message queue or the like (si_code -2)")] {
            let mut dying = Dying::default();
            dying.signal(Signal { from: SignalFrom::Kernel, code, pid: 0, ..signal(1, 15, 0, "?") }, 0);
            assert_eq!(dying.how(Some(15)), format!("killed by SIGTERM, sent by {who}"));
        }
    }

    #[test]
    fn several_senders_are_all_named() {
        let mut dying = Dying::default();
        dying.signal(signal(SECOND, 15, 1, "a"), 0);
        dying.signal(signal(12 * SECOND, 15, 2, "b"), 0);
        dying.signal(signal(13 * SECOND, 15, 3, "c"), 0);
        let how = "killed by SIGTERM, sent by pid 3 (bash, user c) or by pid 2 (bash, user b)";
        assert_eq!(dying.how(Some(15)), how);
        assert_eq!((dying.not_told(5), dying.not_told(5)), (5, 0));
        assert_eq!(dying.how(Some(15)), format!("{how}, or by another: 5 later signals to it are not known"));
        dying.signal(signal(14 * SECOND, 15, 9, ""), 5);
        let how = dying.how(Some(15));
        assert!(
            how.starts_with("killed by SIGTERM, sent by itself after pid 3 (bash, user c) and pid 2"),
            "{how}"
        );
    }

    #[test]
    fn a_name_that_looks_like_another_user() {
        let mut dying = Dying::default();
        dying.signal(Signal { program: "x, user root)".into(), ..signal(1, 15, 1, "eve") }, 0);
        assert_eq!(dying.how(Some(15)), "killed by SIGTERM, sent by pid 1 (x? user root?, user eve)");
    }

    #[test]
    fn faults() {
        let mut dying = Dying::default();
        dying.crash(SECOND, &crash(11, 1, false), Some(&place()));
        let how = "killed by SIGSEGV at address 0x1230 in subSegv, thread cbLow";
        assert_eq!(dying.how(Some(11)), how);
        assert_eq!(dying.how(None), how, "the kernel has said that it dies");
        assert_eq!(dying.how(Some(11 | 0x80)), format!("{how}, with a core dump"));
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL", "during the dump");
        let stripped = Place { function: String::new(), ..place() };
        dying.crash(SECOND, &crash(8, 1, false), Some(&stripped));
        assert_eq!(dying.how(Some(8)), "killed by SIGFPE in ioc+0x4, thread cbLow");
        dying.crash(SECOND, &crash(8, 1, false), Some(&Place::default()));
        assert_eq!(dying.how(Some(8)), "killed by SIGFPE in no file's code (at 0x5000), thread cbLow");
        dying.crash(SECOND, &crash(8, 1, false), None);
        let how = "killed by SIGFPE in unknown code at 0x5000, thread cbLow";
        assert_eq!(dying.how(Some(8)), how, "nobody had the time to look");
        let called = Delivered { name: "a, sent by root".into(), ..crash(7, 1, false) };
        dying.crash(SECOND, &called, Some(&place()));
        let how = "killed by SIGBUS at address 0x1230 in subSegv, thread \"a, sent by root\"";
        assert_eq!(dying.how(Some(7)), how);
    }

    #[test]
    fn a_handler_that_ends_the_process_by_the_same_signal() {
        let mut dying = Dying::default();
        dying.crash(SECOND, &crash(11, 1, true), Some(&place()));
        assert!(dying.how(None).starts_with("its process is gone"), "a handler may go on");
        dying.signal(signal(2 * SECOND, 11, 7, ""), 0);
        dying.crash(2 * SECOND, &crash(11, -6, false), None);
        let how =
            "killed by SIGSEGV at address 0x1230 in subSegv, thread cbLow; a handler of its own got it first";
        assert_eq!(dying.how(Some(11)), how);
    }

    #[test]
    fn abort_and_memory() {
        let mut dying = Dying::default();
        dying.signal(signal(SECOND, 6, 7, ""), 0);
        dying.crash(SECOND, &crash(6, -6, false), Some(&place()));
        assert_eq!(dying.how(Some(6)), "killed by SIGABRT, sent by itself, thread cbLow");
        dying.signal(of_kernel(2 * SECOND), 0);
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL, sent by the kernel");
        assert!(dying.out_of_memory(2 * SECOND + 20_000));
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL, sent by the kernel for lack of memory");
    }

    /// `si_code` of the kernel's SIGXFSZ is that of kill().
    #[test]
    fn a_limit() {
        let mut dying = Dying::default();
        dying.signal(signal(SECOND, libc::SIGXFSZ as u16, 7, ""), 0);
        assert_eq!(dying.how(Some(libc::SIGXFSZ)), "killed by SIGXFSZ, sent by itself or by the kernel");
        let mut dying = Dying::default();
        dying.signal(Signal { code: -6, ..signal(SECOND, libc::SIGXFSZ as u16, 7, "") }, 0);
        assert_eq!(dying.how(Some(libc::SIGXFSZ)), "killed by SIGXFSZ, sent by itself", "by raise()");
    }

    fn of_kernel(time: u64) -> Signal {
        Signal { from: SignalFrom::Kernel, code: 0x80, own: false, ..signal(time, 9, 0, "") }
    }

    /// The kernel gives its reserves to a process that is about to end, and says so as of one that it kills.
    #[test]
    fn chosen_for_its_memory_and_killed_by_somebody_else() {
        let mut dying = Dying::default();
        dying.signal(signal(SECOND, 9, 12, "op"), 0);
        assert!(!dying.out_of_memory(SECOND + 5_000_000));
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL, sent by pid 12 (bash, user op)");
        // cgroup.kill, or a limit of CPU time
        let mut dying = Dying::default();
        dying.signal(of_kernel(SECOND), 0);
        assert!(!dying.out_of_memory(5 * SECOND));
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL, sent by the kernel");
        let mut dying = Dying::default();
        assert!(!dying.out_of_memory(SECOND), "nobody has killed it");
        assert!(dying.how(None).starts_with("its process is gone"), "it may have ended by itself");
        assert_eq!(dying.how(Some(9)), "killed by SIGKILL");
    }

    /// Linux 4.19 shows the kernel's SIGKILL as one of the process that asked for memory.
    #[test]
    fn killed_for_lack_of_memory_on_an_old_kernel() {
        // the next step of the kernel, and that after an interrupt which handled some packets
        for later in [3_000, 400_000] {
            let mut dying = Dying::default();
            dying.signal(signal(SECOND, 9, 12, "op"), 0);
            assert!(dying.out_of_memory(SECOND + later));
            assert_eq!(dying.how(Some(9)), "killed by SIGKILL, sent by the kernel for lack of memory");
        }
    }

    /// Linux 4.9 does not say either which process it kills to get memory back.
    #[test]
    fn perhaps_killed_for_lack_of_memory() {
        for (user, who) in [("op", "pid 12 (bash, user op)"), ("", "itself")] {
            let mut dying = Dying::default();
            dying.signal(Signal { or_kernel: true, ..signal(SECOND, 9, 12, user) }, 0);
            let how = format!("killed by SIGKILL, sent by {who} or by the kernel for lack of memory");
            assert_eq!(dying.how(Some(9)), how);
            // for that it sends no other signal
            dying.signal(Signal { or_kernel: true, ..signal(SECOND, 15, 12, user) }, 0);
            assert_eq!(dying.how(Some(15)), format!("killed by SIGTERM, sent by {who}"));
        }
    }

    #[test]
    fn what_is_known_to_die() {
        let mut dying = Dying::default();
        dying.signal(signal(SECOND, 15, 12, "op"), 0);
        dying.crash(SECOND, &crash(11, 1, true), None);
        assert!(!dying.is_certain(), "handlers may let it go on");
        let asked = |handled| Asked { number: 0, time: SECOND, delivered: crash(6, 0, handled) };
        dying.asked.push(asked(true));
        assert!(!dying.is_certain());
        dying.asked.push(asked(false));
        assert!(dying.is_certain(), "though the names of its crash are not known yet");
        dying.asked.clear();
        dying.crash(SECOND, &crash(6, 0, false), None);
        assert!(dying.is_certain());
        let mut dying = Dying::default();
        dying.signal(signal(SECOND, 9, 12, "op"), 0);
        assert!(dying.is_certain());
    }

    #[test]
    fn overflows() {
        let at = |address, from| {
            has_overflowed(&Delivered { address: Some(address), from, sp: 0x10_0ff8, ..crash(11, 2, false) })
        };
        assert!(at(0x10_0ff0, 0) && at(0x10_0ff8, 8) && at(0xf_fff8, 0));
        assert!(!at(0x1230, 0) && !at(0x10_1000, 0) && !at(0x10_1000, 8));
    }
}
