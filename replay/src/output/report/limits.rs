//! What the page is limited to: some PVs, or some users and clients. It says so at its head and at its foot, and claims nothing
//! of the rest.
//!
//! | asked for | limited to them are |
//! |---|---|
//! | PVs and records | puts, values, alarms, counts of processing, and chains with one of them |
//! | users and clients | puts, and chains with such a put |
//!
//! Values and alarms are never limited to some users: without what others wrote in between they would be wrong.

use crate::filter::Filter;
use crate::pattern::Pattern;

/// Patterns of a kind that are named.
const NAMED: usize = 8;

/// See the module.
#[derive(Default)]
pub struct Limits {
    /// Which PVs and records, in words; empty if all.
    pvs: String,
    /// Whose puts, in words; empty if everybody's.
    who: String,
}

impl Limits {
    /// Those of a filter, whatever its times and places.
    pub fn of(filter: &Filter) -> Limits {
        let mut pvs = Vec::new();
        if !filter.pv.is_empty() {
            pvs.push(format!("PVs and records that match {}", listed(&filter.pv)));
        }
        if !filter.exclude.is_empty() {
            let all = if filter.pv.is_empty() { "PVs and records that do not" } else { "but none that" };
            pvs.push(format!("{all} match {}", listed(&filter.exclude)));
        }
        let named = |what: &str, glob: &Option<Pattern>| Some(format!("{what} {}", glob.as_ref()?.text()));
        let who = [named("user", &filter.user), named("client", &filter.client)];
        let who: Vec<String> = who.into_iter().flatten().collect();
        Limits { pvs: pvs.join(", "), who: who.join(" at ") }
    }

    /// Whether there are any.
    pub fn are_any(&self) -> bool {
        self.are_of_pvs() || !self.who.is_empty()
    }

    /// Whether records are among them: then alarms and processing are not those of all.
    pub fn are_of_pvs(&self) -> bool {
        !self.pvs.is_empty()
    }

    /// What follows the number of puts.
    pub fn of_puts(&self) -> &'static str {
        if self.are_any() {
            " of those asked for"
        } else {
            ""
        }
    }

    /// What follows a number of records.
    pub fn of_records(&self) -> &'static str {
        if self.are_of_pvs() {
            " of those asked for"
        } else {
            ""
        }
    }

    /// For the page's head; empty if there are none.
    pub fn head(&self) -> String {
        let what = match (self.pvs.as_str(), self.who.as_str()) {
            ("", "") => return String::new(),
            ("", who) => {
                format!("puts of {who} and chains with one; values, alarms and processing are those of all")
            }
            (pvs, "") => {
                format!("{pvs}: their puts, values, alarms and processing, and chains with one of them")
            }
            (pvs, who) => format!(
                "{pvs}: their values, alarms and processing, their puts of {who}, and chains with one of them and a put \
                 of {who}"
            ),
        };
        format!(
            "This page is limited to {what}. It says nothing of the rest. Ends of IOCs, losses, marks, hangs, \
             connections, and what IOCs printed and used are those of all."
        )
    }

    /// For the page's foot; empty if there are none.
    pub fn foot(&self) -> String {
        let who = if self.who.is_empty() { String::new() } else { format!("puts of {}", self.who) };
        let all: Vec<&str> =
            [self.pvs.as_str(), who.as_str()].into_iter().filter(|part| !part.is_empty()).collect();
        match all.as_slice() {
            [] => String::new(),
            all => format!("limited to {}", all.join("; ")),
        }
    }
}

/// The patterns, or the first and how many there are.
fn listed(patterns: &[Pattern]) -> String {
    let mut texts: Vec<&str> = patterns.iter().map(Pattern::text).collect();
    texts.dedup();
    let more = texts.len().saturating_sub(NAMED);
    texts.truncate(NAMED);
    let texts = texts.join(" or ");
    match more {
        0 => texts,
        more => format!("{texts} or {more} more patterns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_words() {
        let all = Limits::of(&Filter { since: Some(1), host: Some("box1".into()), ..Filter::default() });
        assert!(!all.are_any() && all.head().is_empty() && all.foot().is_empty());
        let mut filter = Filter { user: Some("bob".into()), ..Filter::default() };
        let who = Limits::of(&filter);
        assert!(who.are_any() && !who.are_of_pvs() && who.of_records().is_empty());
        assert!(who.head().starts_with("This page is limited to puts of user bob and chains with one;"));
        assert_eq!(who.foot(), "limited to puts of user bob");
        filter.client = Some("10.0.0.5".into());
        filter.pv = vec!["LI:*".into(), "T:SP".into()];
        filter.exclude = vec!["*.DESC".into()];
        let both = Limits::of(&filter);
        assert!(both.are_of_pvs());
        assert_eq!(
            both.foot(),
            "limited to PVs and records that match LI:* or T:SP, but none that match *.DESC; puts of user bob at \
             client 10.0.0.5"
        );
        let without = Limits::of(&Filter { exclude: vec!["A".into()], ..Filter::default() });
        assert_eq!(without.foot(), "limited to PVs and records that do not match A");
        let many: Vec<Pattern> = (0..20).map(|n| Pattern::from(n.to_string().as_str())).collect();
        assert!(listed(&many).ends_with("7 or 12 more patterns"), "{}", listed(&many));
    }
}
