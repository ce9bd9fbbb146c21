//! Tests of the loop, with a clock that the test sets and sources that note their calls.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use iocrec_log::event::{Fact, LossSource};

use super::{Loop, CLOCK_STEP, SETTLE, START};
use crate::recorder::context::Context;
use crate::recorder::env::Run;
use crate::recorder::error::{NotTraced, StartError};
use crate::recorder::sources::{Lost, Resting, Source, ROUND, UNTIL_WOKEN};
use crate::recorder::testing::{machine, options, Collected, FakeClock, FakeProcfs, MILLISECOND, SECOND};

/// The calls of sources, in order.
type Calls = Rc<RefCell<Vec<String>>>;

/// A source that writes a mark in each round.
#[derive(Default)]
struct Fake {
    name: &'static str,
    calls: Calls,
    /// Rounds after which more facts wait.
    more: u32,
    /// The round in which something changes.
    changes_in: Option<u32>,
    round: u32,
    lost: u64,
    /// Facts lost each second, in addition.
    loses_each_second: u64,
    never_through: bool,
    never_settled: bool,
    refuses: bool,
    /// How long it rests after each round, if not for a round.
    rests: Option<Duration>,
}

impl Fake {
    fn call(&self, what: &str) {
        self.calls.borrow_mut().push(format!("{} {what}", self.name));
    }
}

impl Source for Fake {
    fn begin(&mut self, _cx: &mut Context<'_>) {
        self.call("begin");
    }

    fn started(&mut self, _cx: &mut Context<'_>, is_through: bool) -> Result<(), StartError> {
        self.call(&format!("started {is_through}"));
        let refusal = StartError::NotTraced { pid: 1, reason: NotTraced::NoProcess };
        if self.refuses {
            Err(refusal)
        } else {
            Ok(())
        }
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        self.call("take");
        self.round += 1;
        cx.changed |= self.changes_in == Some(self.round);
        let now = cx.env.now;
        cx.env.push(now, Fact::Mark(self.name.into()));
        self.round <= self.more
    }

    fn rest(&mut self, _cx: &Resting<'_>) -> Duration {
        self.rests.unwrap_or(ROUND)
    }

    fn survey(&mut self, cx: &mut Context<'_>) {
        self.call("survey");
        let now = cx.env.now;
        cx.env.push(now, Fact::Mark(format!("{} survey", self.name)));
    }

    fn adapt(&mut self, _cx: &mut Context<'_>) {
        self.call("adapt");
    }

    fn second(&mut self, _cx: &mut Context<'_>) {
        self.call("second");
        self.lost += self.loses_each_second;
    }

    fn lost(&mut self) -> Vec<Lost> {
        let count = std::mem::take(&mut self.lost);
        vec![Lost { source: LossSource::Hits, count, cause: "full" }]
    }

    fn is_through(&self) -> bool {
        !self.never_through
    }

    fn is_settled(&self) -> bool {
        !self.never_settled
    }

    fn stop(&mut self, _cx: &mut Context<'_>) {
        self.call("stop");
    }

    fn finish(&mut self, _cx: &mut Context<'_>) {
        self.call("finish");
    }
}

struct Bed {
    clock: FakeClock,
    sink: Collected,
    calls: Calls,
    run: Loop,
}

fn bed(duration: Duration, sources: Vec<Fake>) -> Bed {
    let (clock, sink, calls) = (FakeClock::default(), Collected::default(), Calls::default());
    clock.monotonic.set(10 * SECOND);
    let mut options = options();
    options.duration = Some(duration);
    let mut run = Loop::new(options, machine(&clock, &FakeProcfs::default()), None, Run::default());
    for source in sources {
        run.add(Fake { calls: calls.clone(), ..source });
    }
    Bed { clock, sink, calls, run }
}

impl Bed {
    /// Records to the end. Returns the calls of the sources.
    fn record(&mut self) -> Vec<String> {
        self.run.run(&mut self.sink, &mut |_| {});
        self.calls.take()
    }

    /// The marks that the sources wrote, and their times.
    fn marks(&self) -> Vec<(u64, String)> {
        let mark = |fact| if let Fact::Mark(name) = fact { Some(name) } else { None };
        let events = self.sink.take().into_iter();
        events.filter_map(|event| Some((event.time, mark(event.fact)?))).collect()
    }

    fn losses(&self) -> Vec<(u64, u64, u64)> {
        let events = self.sink.0.borrow();
        let loss = events.iter().filter_map(|event| match &event.fact {
            Fact::Loss(loss) => Some((event.time, loss.since, loss.count)),
            _ => None,
        });
        loss.collect()
    }
}

fn source(name: &'static str) -> Fake {
    Fake { name, ..Fake::default() }
}

#[test]
fn sources_are_asked_in_order_until_the_time_is_over() {
    let mut bed = bed(2 * ROUND, vec![source("a"), source("b")]);
    let calls = bed.record();
    let round = ["a take", "b take"];
    // at 0, 50 and 100 ms, which is the end; then the rest: waiting facts, settled answers, and new ones since
    let mut expected: Vec<&str> = [round; 3].concat();
    expected.extend(["a stop", "b stop"]);
    expected.extend([round; 3].concat());
    expected.extend(["a finish", "b finish"]);
    assert_eq!(calls, expected);
    let marks = bed.marks();
    let at = |milliseconds: u64, name: &str| (10 * SECOND + milliseconds * MILLISECOND, name.to_string());
    assert_eq!(marks[..4], [at(0, "a"), at(0, "b"), at(50, "a"), at(50, "b")]);
    assert_eq!(bed.clock.monotonic.get(), 10 * SECOND + 100 * MILLISECOND);
}

#[test]
fn it_waits_as_long_as_all_rest_and_asks_only_those_that_do_not() {
    let rests = |name, rests| Fake { rests: Some(rests), ..source(name) };
    let half = Duration::from_millis(500);
    let mut bed = bed(Duration::from_millis(1700), vec![rests("a", UNTIL_WOKEN), rests("b", half)]);
    let calls = bed.record();
    let at: Vec<u64> = bed.marks().iter().filter(|(_, name)| name == "b").map(|(time, _)| *time).collect();
    let at: Vec<u64> = at.iter().map(|time| (time - 10 * SECOND) / MILLISECOND).collect();
    // the end, and the work of the second, ask everyone again
    assert_eq!(at, [0, 500, 1000, 1000, 1500, 1700, 1700, 1700, 1700]);
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let begin = ["a take", "b take", "b take", "b take", "a take", "b take", "a survey", "b survey"];
    assert_eq!(calls[..8], begin);
}

#[test]
fn no_second_is_late_though_all_rest() {
    let rests = Fake { rests: Some(UNTIL_WOKEN), ..source("a") };
    let mut bed = bed(Duration::from_millis(3500), vec![rests]);
    let calls = bed.record();
    assert_eq!(calls.iter().filter(|call| *call == "a survey").count(), 3);
    let surveyed = bed.marks().into_iter().filter(|(_, name)| name == "a survey").map(|(time, _)| time);
    assert_eq!(surveyed.collect::<Vec<_>>(), [11 * SECOND, 12 * SECOND, 13 * SECOND]);
}

#[test]
fn there_is_no_waiting_while_there_is_more() {
    let mut bed = bed(ROUND, vec![Fake { more: 3, ..source("a") }]);
    let calls = bed.record();
    let before_the_end = calls.iter().take_while(|call| *call != "a stop").count();
    assert_eq!(
        before_the_end, 5,
        "three rounds with more, one that finds nothing, one at the end: {calls:?}"
    );
}

#[test]
fn all_adapt_to_what_one_has_changed() {
    let mut bed = bed(ROUND, vec![source("a"), Fake { changes_in: Some(1), ..source("b") }]);
    let calls = bed.record();
    assert_eq!(calls[..5], ["a take", "b take", "a adapt", "b adapt", "a take"]);
    assert_eq!(calls.iter().filter(|call| *call == "a adapt").count(), 1);
}

#[test]
fn each_second_all_is_taken_before_processes_are_let_go() {
    let mut bed = bed(Duration::from_millis(1020), vec![source("a"), source("b")]);
    let calls = bed.record();
    let at = calls.iter().position(|call| call == "a survey").expect("a second has passed");
    let expected = ["a take", "b take", "a survey", "b survey", "a adapt", "b adapt", "a second", "b second"];
    assert_eq!(calls[at - 2..at + 6], expected);
    assert_eq!(calls.iter().filter(|call| *call == "a survey").count(), 1);
    // the round and, since time has passed in it, another one
    let then = bed.marks().into_iter().filter(|(time, _)| *time == 11 * SECOND);
    let then: Vec<String> = then.map(|(_, name)| name).collect();
    assert_eq!(then, ["a", "b", "a", "b", "a survey", "b survey"]);
}

#[test]
fn a_loss_is_noted_with_the_time_since_when() {
    let loses = Fake { lost: 5, loses_each_second: 2, ..source("a") };
    let mut bed = bed(Duration::from_millis(2100), vec![loses, source("b")]);
    bed.record();
    let expected = [(11 * SECOND, 10 * SECOND, 7), (12 * SECOND, 11 * SECOND, 2)];
    assert_eq!(bed.losses(), expected, "nothing of what lost nothing");
}

#[test]
fn the_last_losses_are_noted() {
    let mut bed = bed(ROUND, vec![Fake { lost: 5, ..source("a") }]);
    bed.record();
    assert_eq!(bed.losses(), [(10 * SECOND + 50 * MILLISECOND, 10 * SECOND, 5)]);
}

#[test]
fn the_end_waits_for_answers_but_not_for_ever() {
    let mut bed = bed(ROUND, vec![Fake { never_settled: true, ..source("a") }]);
    let calls = bed.record();
    let rounds = calls.iter().skip_while(|call| *call != "a stop").filter(|call| *call == "a take").count();
    assert!(rounds > 100, "{rounds}");
    let took = bed.clock.monotonic.get() - 10 * SECOND;
    assert!((SETTLE..2 * SETTLE).contains(&(took - 50 * MILLISECOND)), "{took}");
    assert_eq!(calls.last().map(String::as_str), Some("a finish"));
}

#[test]
fn the_start_waits_for_what_is_there_but_not_for_ever() {
    let mut quick = bed(ROUND, vec![source("a")]);
    let mut messages = Vec::new();
    assert!(quick.run.start(&mut quick.sink, &mut messages).is_ok());
    assert_eq!(quick.calls.take(), ["a begin", "a take", "a started true"]);
    assert_eq!(quick.clock.monotonic.get(), 10 * SECOND);
    let mut slow = bed(ROUND, vec![source("a"), Fake { never_through: true, ..source("b") }]);
    assert!(slow.run.start(&mut slow.sink, &mut messages).is_ok());
    assert_eq!(slow.calls.take().last().map(String::as_str), Some("b started false"));
    let took = slow.clock.monotonic.get() - 10 * SECOND;
    assert!((START..START + 10 * MILLISECOND).contains(&took), "{took}");
}

#[test]
fn a_source_that_refuses_ends_the_start() {
    let mut bed = bed(ROUND, vec![Fake { refuses: true, ..source("a") }, source("b")]);
    let refused = bed.run.start(&mut bed.sink, &mut Vec::new());
    assert!(matches!(refused, Err(StartError::NotTraced { pid: 1, .. })));
    assert_eq!(bed.calls.take().last().map(String::as_str), Some("a started true"));
}

#[test]
fn a_step_of_the_wall_clock_is_noted_at_once_and_its_course_now_and_then() {
    let mut steady = bed(Duration::from_secs(21), vec![source("a")]);
    steady.run.note_clock(10 * SECOND, &mut steady.sink);
    steady.record();
    let clocks = |bed: &Bed| {
        let events = bed.sink.0.borrow();
        let clock = events.iter().filter_map(|event| match &event.fact {
            Fact::Clock(clock) => Some((event.time, clock.wall)),
            _ => None,
        });
        clock.collect::<Vec<_>>()
    };
    assert_eq!(clocks(&steady).len(), 3, "{:?}", clocks(&steady));
    let mut steps = bed(ROUND, vec![source("a")]);
    steps.run.note_clock(10 * SECOND, &mut steps.sink);
    steps.clock.wall_offset.set(CLOCK_STEP as i64);
    steps.record();
    assert_eq!(clocks(&steps)[1], (10 * SECOND, (10 * SECOND + CLOCK_STEP) as i64));
}
