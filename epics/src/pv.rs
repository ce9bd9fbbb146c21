//! PV names as clients write them (`REC`, `REC.FIELD`, `REC.FIELD$`, `REC.FIELD{filters}`, `REC.{filters}`), and the texts
//! of links.

/// The parts of a PV name, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pv<'a> {
    /// Record or alias.
    pub record: &'a str,
    /// Field; `VAL` if the name gives none.
    pub field: &'a str,
}

impl<'a> Pv<'a> {
    /// Splits `name` where an IOC does: at the first point. What stands before it is the record's name, braces and brackets
    /// as well (`SR:C01{PS:Q1}I-SP`); filters and parts of arrays come after the point only.
    pub fn new(name: &'a str) -> Self {
        let (record, rest) = match name.find('.') {
            Some(at) => name.split_at(at),
            None => (name, ""),
        };
        let field = rest.strip_prefix('.').unwrap_or("");
        // The field ends at `$` (as a long string), `[` (a part of an array) or `{` (filters).
        let end = field.find(['$', '[', '{']).unwrap_or(field.len());
        let field = field.get(..end).unwrap_or(field);
        Pv { record, field: if field.is_empty() { "VAL" } else { field } }
    }
}

/// The link's target without its modifiers (`REC.FIELD PP MS` is `REC.FIELD`).
pub fn link_target(link: &str) -> &str {
    link.split_ascii_whitespace().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        for (name, record, field) in [
            ("T:SP", "T:SP", "VAL"),
            ("T:SP.DRVH", "T:SP", "DRVH"),
            ("T:SP.DESC$", "T:SP", "DESC"),
            ("T:SP.$", "T:SP", "VAL"),
            ("T:SP.VAL[0:3]", "T:SP", "VAL"),
            ("T:SP.{\"dbnd\":{\"abs\":1.5}}", "T:SP", "VAL"),
            ("T:SP.EGU{\"ts\":{}}", "T:SP", "EGU"),
            ("SR:C01{PS:Q1}I-SP", "SR:C01{PS:Q1}I-SP", "VAL"),
            ("SR:C01{PS:Q1}I-SP.DRVH", "SR:C01{PS:Q1}I-SP", "DRVH"),
            ("A[1]<b>;.VAL{\"ts\":{}}", "A[1]<b>;", "VAL"),
            ("", "", "VAL"),
        ] {
            assert_eq!(Pv::new(name), Pv { record, field }, "{name}");
        }
        assert_eq!(link_target("T:SP.A PP MS"), "T:SP.A");
    }
}
