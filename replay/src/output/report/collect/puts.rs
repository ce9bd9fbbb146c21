//! The puts that the page lists: all of them, up to a number.
//!
//! Beyond it, the first to go are those in the middle of long series by one writer to one PV, outside of the minutes
//! that the verdict is about. Denied and failed puts stay longest, then those that wrote another value than was asked
//! for.

use super::places::{Places, NONE};
use crate::model::putlog::{PutLine, Via};
use crate::output::report::strings::{Strings, Text};
use crate::wording::put::parts;
use std::collections::HashMap;

/// Puts that the page lists.
pub const MAX_PUTS: usize = 20_000;
/// Puts at which some are left out; a pass over so many is made once for so many more.
const MAX_HELD: usize = 2 * MAX_PUTS;
/// Puts of a series that are kept at its begin and at its end.
const ENDS: usize = 100;

/// Access was denied.
pub const DENIED: u16 = 1;
/// The server answered with another error.
pub const FAILED: u16 = 2;
/// The field holds another value than was asked for.
pub const OTHERWISE: u16 = 4;
/// The new value is not certain to be the put's result.
pub const INEXACT: u16 = 8;
/// Seen on the network only: nothing is known of its effect.
pub const WIRE_ONLY: u16 = 16;
/// The result is unknown.
pub const UNKNOWN: u16 = 32;
/// It acknowledges an alarm: `new` says so in words.
pub const ACKNOWLEDGES: u16 = 64;
/// The value before is known.
pub const OLD_KNOWN: u16 = 128;
/// The value afterwards is known, or those of a group's members; otherwise `new` is what was asked for.
pub const NEW_KNOWN: u16 = 256;
/// It is known not to have written.
pub const NOT_WRITTEN: u16 = 512;

/// A put.
#[derive(Clone, Debug)]
pub struct Put {
    /// Wall-clock time.
    pub time: i64,
    /// PV as the client named it.
    pub pv: Text,
    /// Its record; [`NONE`] if that is not known.
    pub record: u32,
    /// IOC; [`NONE`] if that is not known.
    pub ioc: u32,
    /// Who, by the number of a writer.
    pub writer: u32,
    /// The host that the client claims.
    pub from: Text,
    /// The client's address.
    pub address: Text,
    /// The value before, the value afterwards, the value asked for if that is another.
    pub old: Text,
    /// See `old`.
    pub new: Text,
    /// See `old`.
    pub asked: Text,
    /// Result.
    pub status: Text,
    /// How it came, as in the put log.
    pub via: Text,
    /// Milliseconds to the answer of a put with callback; NaN if there was none.
    pub callback_ms: f64,
    /// Number of its chain.
    pub chain: u64,
    /// See the constants.
    pub flags: u16,
}

/// All puts.
#[derive(Default)]
pub struct Puts {
    /// In the order in which their chains began, until sorted.
    pub all: Vec<Put>,
    /// Number in the log.
    pub total: u64,
    /// Those who put, with the number of their puts.
    pub writers: Vec<(Text, u64)>,
    numbers: HashMap<String, u32>,
}

/// Who put, in the words of the page: the user that the client claims, the IOC in which it was made, or the way it came.
pub fn writer(put: &PutLine) -> String {
    match (put.via, &put.client_ioc, &put.cause_record, &put.user) {
        // a link, a sequencer's program or another client in its process
        (Via::CaLink | Via::PvaLink, Some(ioc), _, _) => format!("IOC {ioc}"),
        (Via::CaLink, None, Some(record), _) => format!("CA link of {record}"),
        (Via::CaLink, None, None, _) => "CA link".to_owned(),
        (Via::Dbpf, ..) => "IOC shell".to_owned(),
        (_, _, _, Some(user)) => user.as_ref().to_owned(),
        (Via::Pva, ..) => "PVA client".to_owned(),
        (Via::Python, ..) => "Python".to_owned(),
        _ => "not known".to_owned(),
    }
}

impl Puts {
    /// Takes a put of the chain with this number. Returns its flags.
    pub fn take(
        &mut self,
        put: &PutLine,
        chain: u64,
        places: &mut Places,
        strings: &mut Strings,
        focus: Option<(i64, i64)>,
    ) -> u16 {
        self.total += 1;
        let mut change = parts(put);
        let of_members = put.pva.as_ref().is_some_and(|pva| !pva.members.is_empty());
        let known = of_members || put.new != iocrec_log::event::Value::Unknown;
        if let Some(asked) = change.asked.take_if(|_| !known) {
            change.new = asked; // which the page says
        }
        if let Some(others) = change.others.take() {
            change.new += &format!(" (with {others})");
        }
        let mut flags = match &*put.status {
            "ok" => 0,
            "denied" => DENIED,
            "unknown" => UNKNOWN,
            _ => FAILED,
        };
        for (flag, is) in [
            (OTHERWISE, change.asked.is_some() && put.status == "ok"),
            (INEXACT, put.inexact),
            (WIRE_ONLY, put.source == "packet"),
            (ACKNOWLEDGES, change.acknowledges),
            (OLD_KNOWN, change.old.is_some()),
            (NEW_KNOWN, known && !change.acknowledges),
            (NOT_WRITTEN, put.has_not_written()),
        ] {
            flags |= if is { flag } else { 0 };
        }
        let ioc = put.ioc.as_deref().unwrap_or_default();
        let host = put.host.as_deref().unwrap_or_default();
        let ioc = places.at(host, ioc, put.time);
        let record = put.record.as_deref().and_then(|name| places.by_name(ioc, name)).unwrap_or(NONE);
        if let Some(record) = places.record(record) {
            record.puts += 1;
        }
        let row = Put {
            time: put.time,
            pv: strings.add(put.pv.as_deref().unwrap_or("(unnamed channel)")),
            record,
            ioc,
            writer: self.writer(put, strings),
            from: strings.add(put.client_host.as_deref().unwrap_or_default()),
            address: strings.add(put.client.as_deref().unwrap_or_default()),
            old: strings.add(change.old.as_deref().unwrap_or_default()),
            new: strings.add(&change.new),
            asked: strings.add(change.asked.as_deref().unwrap_or_default()),
            status: strings.add(&put.status),
            via: strings.add(put.via.name()),
            callback_ms: put.callback_ms.unwrap_or(f64::NAN),
            chain,
            flags,
        };
        if self.all.len() == MAX_PUTS {
            self.all.reserve_exact(MAX_HELD - MAX_PUTS); // and not more
        }
        self.all.push(row);
        if self.all.len() >= MAX_HELD {
            self.leave_out(focus);
        }
        flags
    }

    fn writer(&mut self, put: &PutLine, strings: &mut Strings) -> u32 {
        let name = writer(put);
        let number = match self.numbers.get(&name) {
            Some(number) => *number,
            None if self.writers.len() >= MAX_PUTS => return NONE,
            None => {
                let number = u32::try_from(self.writers.len()).unwrap_or(NONE);
                self.writers.push((strings.add(&name), 0));
                self.numbers.insert(name, number);
                number
            }
        };
        if let Some((_, puts)) = usize::try_from(number).ok().and_then(|number| self.writers.get_mut(number))
        {
            *puts += 1;
        }
        number
    }

    /// Calls `take` with the number of each text.
    pub fn each_text(&mut self, take: &mut impl FnMut(&mut Text)) {
        for put in &mut self.all {
            let Put { pv, from, address, old, new, asked, status, via, .. } = put;
            [pv, from, address, old, new, asked, status, via].into_iter().for_each(&mut *take);
        }
        self.writers.iter_mut().for_each(|(name, _)| take(name));
    }

    /// Puts all in order of time, and leaves out those that there is no room for.
    pub fn finish(&mut self, focus: Option<(i64, i64)>) {
        if self.all.len() > MAX_PUTS {
            self.leave_out(focus);
        }
        self.all.sort_by_key(|put| put.time);
    }

    /// Leaves out puts until there are at most [`MAX_PUTS`].
    fn leave_out(&mut self, focus: Option<(i64, i64)>) {
        let mut series: HashMap<(u32, Text), (usize, usize)> = HashMap::new();
        for put in &self.all {
            series.entry((put.writer, put.pv)).or_default().0 += 1;
        }
        let ranks: Vec<u8> = self
            .all
            .iter()
            .map(|put| {
                let outside = focus.is_none_or(|(from, to)| !(from..=to).contains(&put.time));
                let (length, place) = series.entry((put.writer, put.pv)).or_default();
                *place += 1;
                let middle = *place > ENDS && *place + ENDS <= *length;
                let (refused, otherwise) = (put.flags & (DENIED | FAILED) != 0, put.flags & OTHERWISE != 0);
                match (refused, otherwise, middle) {
                    (true, ..) => 5,
                    (false, true, false) => 4,
                    (false, false, false) => 3,
                    (false, true, true) => 2,
                    (false, false, true) => u8::from(!outside),
                }
            })
            .collect();
        let mut excess = self.all.len().saturating_sub(MAX_PUTS);
        let mut out = vec![false; self.all.len()];
        for rank in 0..=5_u8 {
            let candidates = ranks.iter().enumerate().filter(|(_, other)| **other == rank);
            let candidates: Vec<usize> = candidates.map(|(number, _)| number).collect();
            let count = candidates.len().min(excess);
            excess -= count;
            for (place, number) in candidates.iter().enumerate() {
                // Spread evenly, so that those that stay show the whole time.
                if let Some(out) = out.get_mut(*number) {
                    *out = (place + 1) * count / candidates.len() > place * count / candidates.len();
                }
            }
        }
        let mut out = out.into_iter();
        self.all.retain(|_| !out.next().unwrap_or(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::putlog::PvaLine;
    use crate::output::puts::sample::put;
    use iocrec_log::event::Value;

    /// A group's members are written one by one until one is refused: that the whole was refused tells nothing of them.
    #[test]
    fn only_what_was_not_written_is_told_so() {
        let (mut puts, mut places, mut strings) = (Puts::default(), Places::default(), Strings::default());
        let refused = || PutLine { status: "denied".into(), new: Value::Unknown, ..put() };
        let mut flags = |put: &PutLine| puts.take(put, 1, &mut places, &mut strings, None);
        assert_eq!(flags(&refused()) & (NOT_WRITTEN | NEW_KNOWN), NOT_WRITTEN);
        let pva = |members| PvaLine {
            request: "put",
            fields: ["first", "second"].map(|name| (name.to_owned(), Value::Double(1.0))).into(),
            is_cut: false,
            main: None,
            options: vec![],
            message: None,
            result: vec![],
            members,
        };
        let group =
            |members| PutLine { record: None, wrote: false, pva: Some(Box::new(pva(members))), ..refused() };
        assert_eq!(flags(&group(vec![])) & (NOT_WRITTEN | NEW_KNOWN), 0);
        assert_eq!(flags(&group(vec![put()])) & (NOT_WRITTEN | NEW_KNOWN), NEW_KNOWN);
    }

    #[test]
    fn of_too_many_puts_those_in_the_middle_of_a_series_go() {
        let (mut puts, mut places, mut strings) = (Puts::default(), Places::default(), Strings::default());
        let count = 3 * MAX_PUTS as i64;
        for time in 0..count {
            let status = if time == count / 2 { "denied" } else { "ok" };
            let asked_for = Value::Double(10.0);
            let put = PutLine { time, status: status.into(), requested: asked_for, ..put() };
            puts.take(&put, 1, &mut places, &mut strings, None);
        }
        // Of another series, and clamped.
        let rare = PutLine { time: count / 3, user: Some("rare".into()), ..put() };
        puts.take(&rare, 1, &mut places, &mut strings, None);
        puts.finish(None);
        assert_eq!((puts.total, puts.all.len()), (count as u64 + 1, MAX_PUTS));
        assert!(puts.all.iter().any(|put| put.flags & DENIED != 0));
        assert!(puts.all.iter().any(|put| put.time == count / 3 && put.flags & OTHERWISE != 0));
        assert_eq!((puts.all[0].time, puts.all[MAX_PUTS - 1].time), (0, count - 1));
        assert_eq!(puts.writers.iter().map(|(_, puts)| puts).sum::<u64>(), puts.total);
    }
}
