//! Aliases of options.

/// An alias of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The alias, such as `--max-chains`.
    pub alias: &'static str,
    /// The name that argh knows, such as `--thin`.
    pub option: &'static str,
}

/// Replaces aliases with the names that argh knows. Arguments after `--` are not changed.
pub fn resolve<'a>(arguments: &[&'a str], aliases: &'static [Alias]) -> Vec<&'a str> {
    let mut only_operands = false;
    let mut one = |argument: &&'a str| {
        only_operands |= *argument == "--";
        let known = aliases.iter().find(|known| known.alias == *argument && !only_operands);
        known.map_or(*argument, |known| known.option)
    };
    arguments.iter().map(&mut one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_replaced_and_all_else_stays() {
        static ALIASES: [Alias; 1] = [Alias { alias: "--max-chains", option: "--thin" }];
        let resolved = resolve(&["record", "--max-chains", "2", "--dir", "x"], &ALIASES);
        assert_eq!(resolved, ["record", "--thin", "2", "--dir", "x"]);
        assert_eq!(resolve(&["--max-chain", "max-chains"], &ALIASES), ["--max-chain", "max-chains"]);
        assert_eq!(resolve(&["mark", "--", "--max-chains"], &ALIASES), ["mark", "--", "--max-chains"]);
        assert_eq!(resolve(&[], &ALIASES), Vec::<&str>::new());
    }
}
