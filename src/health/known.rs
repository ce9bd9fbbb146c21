//! The names of threads that pieces tell of, and their numbers in the log.
//!
//! A number belongs to a name, not to a thread: an IOC whose clients come and go for years does not use up numbers, nor
//! does its log keep its threads.

use std::collections::BTreeMap;

/// Names of one process that are told: an IOC has some dozens. What threads of others use is in the process's sum.
const MAX: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub struct Known {
    places: BTreeMap<String, u32>,
    /// Each name, and its number in the log; 0 if it has none yet.
    names: Vec<(String, u32)>,
}

impl Known {
    /// The place of a name, which is new if it was not known. `None` if there are too many.
    pub fn place(&mut self, name: &str) -> Option<u32> {
        if let Some(place) = self.places.get(name) {
            return Some(*place);
        }
        let place = u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < MAX)?;
        self.places.insert(name.to_string(), place);
        self.names.push((name.to_string(), 0));
        Some(place)
    }

    /// The number in the log of the name at a place, made by `new`; with the name if it is new.
    pub fn id(&mut self, place: u32, new: &mut dyn FnMut() -> u32) -> Option<(u32, Option<String>)> {
        let (name, id) = self.names.get_mut(place as usize)?;
        let is_new = *id == 0;
        if is_new {
            *id = new();
        }
        Some((*id, is_new.then(|| name.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_for_each_name_and_a_bound() {
        let (mut known, mut last) = (Known::default(), 40);
        let mut new = || {
            last += 1;
            last
        };
        let [one, other] = ["scan-1", "cbLow"].map(|name| known.place(name).unwrap());
        assert_eq!(known.place("scan-1"), Some(one), "another thread of this name");
        assert_eq!(known.id(other, &mut new), Some((41, Some("cbLow".into()))));
        assert_eq!(known.id(one, &mut new), Some((42, Some("scan-1".into()))));
        assert_eq!(known.id(other, &mut new), Some((41, None)));
        assert_eq!(known.id(99, &mut new), None);
        let many = (0..2 * MAX).filter(|number| known.place(&number.to_string()).is_some()).count();
        assert_eq!(many, MAX - 2);
        assert_eq!(known.place("cbLow"), Some(other));
    }
}
