//! The state of all fields at given times: the fold of the history up to them.
//!
//! Most of a log says nothing about a time much later: what changes often has changed since, and what does not change has
//! the value that it had. So [`around`] folds the beginning of each run and the time before the one that is asked for, and
//! of the part between only looks at the bare facts, which tell whether that gives the same. Where it may not, as with
//! losses in that part, everything is read.

pub mod around;
mod seen;
pub mod set_by_processing;
pub mod state;
pub mod to_setting;

use crate::answers::states::state::State;
use crate::answers::values::{Entry, History};
use crate::filter::Filter;
use crate::logs::Logs;
use crate::reading::runs::course::Course;

/// Entries of the history: both states need them, the earlier one not all.
fn fold(
    history: History,
    mut states: Vec<State>,
    mut each: impl FnMut(&Entry, &mut [State]) -> bool,
) -> Option<Vec<State>> {
    for entry in history {
        if !each(&entry, &mut states) {
            return None;
        }
        let time = entry.time();
        if let [first, rest @ ..] = states.as_mut_slice() {
            for state in rest.iter_mut().filter(|state| state.reaches(time)) {
                state.take(entry.clone());
            }
            first.take(entry);
        }
    }
    Some(states)
}

/// The states at these times, the latest first, by `make`. Of records of which a field is selected, VAL is followed, too:
/// it tells when they process.
fn states(logs: &Logs, filter: &Filter, make: &dyn Fn() -> Vec<State>) -> Vec<State> {
    let Some(wider) = filter.with_values() else { return fold_at(logs, filter, make) };
    let mut states = fold_at(logs, &wider, make);
    states.iter_mut().for_each(|state| state.retain(filter));
    states
}

fn fold_at(logs: &Logs, filter: &Filter, make: &dyn Fn() -> Vec<State>) -> Vec<State> {
    let latest = make().first().map_or(i64::MAX, State::time);
    let courses = logs.courses();
    if courses.iter().any(Course::is_set_back) {
        // times come twice: the order decides what was before
        let make = || {
            let mut states = make();
            for (course, boot) in courses.iter().zip(logs.boots()).filter(|(course, _)| course.is_set_back())
            {
                for state in &mut states {
                    state.stands_at(&boot, |wall| course.last_shown(wall).0);
                }
            }
            states
        };
        return fold(logs.history(filter), make(), |_, _| true).unwrap_or_default();
    }
    let filter = &filter.until(latest.saturating_add(1));
    if let Some(states) = around::states(logs, filter, make) {
        return states;
    }
    fold(logs.history(filter), make(), |_, _| true).unwrap_or_default()
}

/// The state at this time (nanoseconds since 1970 UTC), of the fields that the filter selects. Its times don't matter.
pub fn at(logs: &Logs, filter: &Filter, time: i64) -> State {
    states(logs, filter, &|| vec![State::at(time)]).pop().unwrap_or_else(|| State::at(time))
}

/// The states at two times. The second counts the changes since the first, and knows the last of each field.
pub fn between(logs: &Logs, filter: &Filter, first: i64, second: i64) -> (State, State) {
    let make = || vec![State::at(second).counting_from(first), State::at(first)];
    let mut states = states(logs, filter, &make);
    let before = states.pop().unwrap_or_else(|| State::at(first));
    (before, states.pop().unwrap_or_else(|| State::at(second)))
}
