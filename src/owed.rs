//! Answers that are still to come for a number that was used again before they came: which of the requests with that
//! number such an answer is for, nobody can tell.
//!
//! Numbers are the client's own, and one that wants to be mistaken for another can use them as it likes. So what an owed
//! answer says is taken for none of the requests, until as many have come as there were requests; unless all of them asked
//! for the same.

/// Numbers that are watched. Clients that mean no harm need none; with more, every answer counts as owed.
const MOST: usize = 64;

#[derive(Debug)]
struct Number {
    number: u32,
    /// Answers to come.
    count: u32,
    /// What was asked for; `None` if different things were, or what can't be compared.
    asked: Option<Box<str>>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Owed {
    numbers: Vec<Number>,
    /// Whether there were more numbers than are watched.
    pub is_full: bool,
}

impl Owed {
    /// One more answer is to come for this number.
    pub fn add(&mut self, number: u32, asked: Option<&str>) {
        if let Some(known) = self.numbers.iter_mut().find(|known| known.number == number) {
            known.count = known.count.saturating_add(1);
            known.asked.take_if(|known| Some(&**known) != asked);
        } else if self.numbers.len() < MOST {
            self.numbers.push(Number { number, count: 1, asked: asked.map(Into::into) });
        } else {
            self.is_full = true;
        }
    }

    /// Whether an answer for this number is owed.
    pub fn has(&self, number: u32) -> bool {
        self.is_full || self.numbers.iter().any(|known| known.number == number)
    }

    /// Whether any answer is owed.
    pub fn is_any(&self) -> bool {
        self.is_full || !self.numbers.is_empty()
    }

    /// An answer came. If it was owed: what it is for, if all asked for the same.
    pub fn take(&mut self, number: u32) -> Option<Option<Box<str>>> {
        let is_full = self.is_full;
        let at = self.numbers.iter().position(|known| known.number == number);
        let Some(known) = at.and_then(|at| self.numbers.get_mut(at)) else { return is_full.then_some(None) };
        known.count -= 1;
        let asked = known.asked.clone().filter(|_| !is_full);
        self.numbers.retain(|known| known.count > 0);
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_owed_once() {
        let mut owed = Owed::default();
        [7, 7, 8].into_iter().for_each(|number| owed.add(number, None));
        assert_eq!(
            [7, 7, 7, 8, 8].map(|number| owed.take(number).is_some()),
            [true, true, false, true, false]
        );
    }

    #[test]
    fn what_all_asked_for_is_known() {
        let mut owed = Owed::default();
        [(7, "A"), (7, "A"), (8, "A"), (8, "B"), (8, "B")]
            .into_iter()
            .for_each(|(n, pv)| owed.add(n, Some(pv)));
        assert_eq!(owed.take(7), Some(Some("A".into())));
        assert_eq!(owed.take(7), Some(Some("A".into())));
        assert_eq!(
            [owed.take(8), owed.take(8), owed.take(8), owed.take(8)],
            [Some(None), Some(None), Some(None), None]
        );
    }

    #[test]
    fn with_too_many_numbers_every_answer_is_owed() {
        let mut owed = Owed::default();
        (0..=MOST as u32).for_each(|number| owed.add(number, Some("A")));
        assert!((0..1000).all(|number| owed.take(number) == Some(None) && owed.take(number) == Some(None)));
    }
}
