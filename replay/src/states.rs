//! The state of all fields at given times: one pass over the logs.

use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::state::State;
use crate::time::SECOND;
use crate::values::Entry;

/// Time after which the recorder has noted what went unseen: losses within a flush and a turn of its loop, a
/// detachment within its checks once a second.
pub const NOTED: i64 = 30 * SECOND as i64;

/// Entries of the history: both states need them, the earlier one not all.
fn fold(logs: &Logs, filter: &Filter, mut states: Vec<(i64, State)>) -> Vec<State> {
    let until = states.iter().map(|(time, _)| *time).max().unwrap_or(i64::MAX).saturating_add(1);
    let filter = &filter.until(until);
    for entry in logs.history(filter) {
        let time = match &entry {
            Entry::Process { time, .. } | Entry::Attached { time, .. } | Entry::Disabled { time, .. } => {
                *time
            }
            // something unseen may have begun long before it was noted
            Entry::Value(line) => line.unseen.as_ref().map_or(line.time, |unseen| unseen.since),
        };
        if let [(_, first), rest @ ..] = states.as_mut_slice() {
            for (_, state) in rest.iter_mut().filter(|(until, _)| time <= *until) {
                state.take(entry.clone());
            }
            first.take(entry);
        }
    }
    states.into_iter().map(|(_, state)| state).collect()
}

/// The state at this time (nanoseconds since 1970 UTC), of the fields that the filter selects. Its times don't matter.
pub fn at(logs: &Logs, filter: &Filter, time: i64) -> State {
    fold(logs, filter, vec![(time, State::at(time))]).pop().unwrap_or_else(|| State::at(time))
}

/// The states at two times. The second counts the changes since the first, and knows the last of each field.
pub fn between(logs: &Logs, filter: &Filter, first: i64, second: i64) -> (State, State) {
    let later = (second, State::at(second).counting_from(first));
    let mut states = fold(logs, filter, vec![later, (first, State::at(first))]);
    let before = states.pop().unwrap_or_else(|| State::at(first));
    (before, states.pop().unwrap_or_else(|| State::at(second)))
}
