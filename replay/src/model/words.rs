//! Words whose end many have in common: of a hundred thousand puts each has its own PV and values, and one of a few thousand
//! clients made it.

use super::numbered::Keyed;
use std::borrow::Cow;
use std::rc::Rc;

/// Ends that are shared; a bound for hostile logs. A big IOC has some thousand circuits.
const MAX_ENDS: usize = 10_000;

/// What stands before who made a put.
const BY: &str = " by ";

/// A text in two parts.
#[derive(Clone, Debug, Default)]
pub struct Words {
    own: Box<str>,
    end: Option<Rc<str>>,
}

impl Words {
    /// The text.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.end {
            Some(end) => Cow::Owned([&*self.own, end].concat()),
            None => Cow::Borrowed(&self.own),
        }
    }

    /// Appends the text.
    pub fn push_to(&self, text: &mut String) {
        text.push_str(&self.own);
        text.push_str(self.end.as_deref().unwrap_or_default());
    }
}

impl From<String> for Words {
    fn from(text: String) -> Words {
        Words { own: text.into_boxed_str(), end: None }
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Words {
        Words { own: text.into(), end: None }
    }
}

/// Ends of texts, each held once.
#[derive(Default)]
pub struct Ends {
    known: Keyed<Rc<str>, ()>,
}

impl Ends {
    /// This text, with the end that says who made a put shared.
    pub fn share(&mut self, text: &str) -> Words {
        let Some((own, end)) = text.rfind(BY).and_then(|place| text.split_at_checked(place)) else {
            return text.into();
        };
        if let Some((known, ())) = self.known.get_key_value(end) {
            return Words { own: own.into(), end: Some(Rc::clone(known)) };
        }
        if self.known.len() >= MAX_ENDS {
            return text.into();
        }
        let end: Rc<str> = end.into();
        self.known.insert(Rc::clone(&end), ());
        Words { own: own.into(), end: Some(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_that_were_said() {
        let mut ends = Ends::default();
        let first = ends.share("ca_write A by B 1 -> 2 by alice@console3");
        let second = ends.share("ca_write A 2 -> 3 by alice@console3");
        assert!(Rc::ptr_eq(first.end.as_ref().unwrap(), second.end.as_ref().unwrap()));
        for text in ["ca_write A by B 1 -> 2 by alice@console3", "scan 1 second", "", " by ", "é by é"] {
            let words = ends.share(text);
            let mut pushed = String::new();
            words.push_to(&mut pushed);
            assert_eq!((&*words.text(), &*pushed), (text, text));
        }
        for number in 0..2 * MAX_ENDS {
            let text = format!("put by {number}");
            assert_eq!(ends.share(&text).text(), text);
        }
        assert_eq!(ends.known.len(), MAX_ENDS);
    }
}
