//! Manual pages in mdoc, made from a template that has everything but the options.
//!
//! Lines of a template that begin with `@` are replaced:
//!
//! - `@generated`: a comment that names the sources of the page;
//! - `@usage`: the commands in short, for SYNOPSIS;
//! - `@synopsis COMMAND`: the command with all its options;
//! - `@options COMMAND` to `@end`: the list of the options that no other command has;
//! - `@shared` to `@end`: the list of the options that several commands share verbatim.
//!
//! Within a list, a line with an option's name starts text that is added to the option's help.

use super::program::{is_optional, options, Program};
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality, PositionalInfo};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum width of a line of text, columns.
const WIDTH: usize = 80;

/// A fault of a template, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An unknown directive.
    Directive(usize, String),
    /// An unknown command.
    Command(usize, String),
    /// An option that is not in this list.
    Option(usize, String),
    /// A list without `@end`.
    NoEnd(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Directive(line, text) => write!(f, "line {line}: unknown directive {text}"),
            Error::Command(line, name) => write!(f, "line {line}: unknown command {name}"),
            Error::Option(line, name) => write!(f, "line {line}: this list has no option {name}"),
            Error::NoEnd(line) => write!(f, "line {line}: no @end to this list"),
        }
    }
}

impl std::error::Error for Error {}

/// Makes the manual page of a program.
///
/// # Errors
/// If the template is invalid.
pub fn page(program: &Program, template: &str) -> Result<String, Error> {
    let mut page = String::new();
    let mut lines = (1..).zip(template.lines());
    while let Some((number, line)) = lines.next() {
        let command =
            |name: &str| program.command(name).ok_or_else(|| Error::Command(number, name.to_owned()));
        match line.strip_prefix('@').map(|directive| directive.split_once(' ').unwrap_or((directive, ""))) {
            None => {
                page.push_str(line);
                page.push('\n');
            }
            Some(("generated", "")) => {
                let name = program.name;
                page.push_str(&format!(
                    ".\\\" Made by `make pages` from {name}.1.in and the options of {name}: edit those.\n"
                ));
            }
            Some(("usage", "")) => {
                for command in program.commands() {
                    usage(&mut page, command.name, &command.command);
                }
            }
            Some(("synopsis", name)) => synopsis(&mut page, name, command(name)?),
            Some(("options", name)) => {
                let own: Vec<_> =
                    options(command(name)?).filter(|option| !program.is_shared(option)).collect();
                list(&mut page, program, &own, more(&mut lines, number)?)?;
            }
            Some(("shared", "")) => {
                let mut shared: Vec<&FlagInfo> = Vec::new();
                let all = program.commands().iter().flat_map(|command| options(&command.command));
                for option in all.filter(|option| program.is_shared(option)) {
                    if !shared.contains(&option) {
                        shared.push(option);
                    }
                }
                list(&mut page, program, &shared, more(&mut lines, number)?)?;
            }
            Some(_) => return Err(Error::Directive(number, line.to_owned())),
        }
    }
    Ok(page)
}

/// The template's additions to the options of a list: by option, the line number and the lines.
type More<'a> = BTreeMap<&'a str, (usize, Vec<&'a str>)>;

/// Reads the additions, up to `@end`.
fn more<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>, begin: usize) -> Result<More<'a>, Error> {
    let mut more = More::new();
    let mut option = None;
    for (number, line) in lines {
        match (line, option) {
            ("@end", _) => return Ok(more),
            (line, _) if line.starts_with("--") => {
                more.insert(line, (number, Vec::new()));
                option = Some(line);
            }
            (line, Some(option)) => {
                if let Some((_, text)) = more.get_mut(option) {
                    text.push(line);
                }
            }
            (line, None) => return Err(Error::Option(number, line.to_owned())),
        }
    }
    Err(Error::NoEnd(begin))
}

/// Writes the short form of a command: its required options, `options` for the rest, and its operands.
fn usage(page: &mut String, name: &str, command: &CommandInfoWithArgs) {
    page.push_str(&format!(".Nm\n.Cm {name}\n"));
    for option in options(command).filter(|option| !is_optional(&option.optionality)) {
        page.push_str(&format!(".{}\n", flag(option)));
    }
    match options(command).filter(|option| is_optional(&option.optionality)).count() {
        0 => {}
        1..=2 => {
            for option in options(command).filter(|option| is_optional(&option.optionality)) {
                page.push_str(&format!(".Op {}\n", flag(option)));
            }
        }
        _ => page.push_str(".Op Ar options\n"),
    }
    command.positionals.iter().for_each(|operand| page.push_str(&format!(".{}\n", positional(operand))));
}

fn synopsis(page: &mut String, name: &str, command: &CommandInfoWithArgs) {
    page.push_str(&format!(".Nm\n.Cm {name}\n"));
    for option in options(command) {
        let flag = flag(option);
        page.push_str(&match is_optional(&option.optionality) {
            true => format!(".Op {flag}\n"),
            false => format!(".{flag}\n"),
        });
    }
    command.positionals.iter().for_each(|operand| page.push_str(&format!(".{}\n", positional(operand))));
}

/// An option with its value, such as `Fl -dir Ar DIR`.
fn flag(option: &FlagInfo) -> String {
    let long = option.long.trim_start_matches('-');
    let name = match option.short {
        Some(short) => format!("Fl {short} | -{long}"),
        None => format!("Fl -{long}"),
    };
    match option.kind {
        FlagInfoKind::Switch => name,
        FlagInfoKind::Option { arg_name } => format!("{name} Ar {}", arg_name.to_uppercase()),
    }
}

fn positional(operand: &PositionalInfo) -> String {
    let dots =
        if matches!(operand.optionality, Optionality::Repeating | Optionality::Greedy) { " ..." } else { "" };
    format!("Ar {}{dots}", operand.name.to_uppercase())
}

/// Writes a list of options, each with its help and the template's addition.
fn list(
    page: &mut String,
    program: &Program,
    options: &[&FlagInfo],
    mut more: More<'_>,
) -> Result<(), Error> {
    // mdoc has no empty lists.
    if !options.is_empty() {
        page.push_str(".Bl -tag -width Ds\n");
    }
    for option in options {
        let value = match option.kind {
            FlagInfoKind::Switch => String::new(),
            FlagInfoKind::Option { arg_name } => format!(" Ar {}", arg_name.to_uppercase()),
        };
        let short = option.short.map_or(String::new(), |short| format!("{short} , "));
        page.push_str(&format!(".It Fl {short}-{}{value}", option.long.trim_start_matches('-')));
        for alias in program.aliases(option.long) {
            page.push_str(&format!(" , Fl -{}{value}", alias.trim_start_matches('-')));
        }
        page.push('\n');
        // The heading above already names the aliases.
        let aliases = program.aliases(option.long);
        let help = aliases.fold(option.description.to_owned(), |help, alias| {
            help.replace(&format!(" (also {alias})"), "").replace(&format!(" Also {alias}"), "")
        });
        prose(page, &help);
        if let Some((_, text)) = more.remove(option.long) {
            text.iter().for_each(|line| page.push_str(&format!("{line}\n")));
        }
    }
    if !options.is_empty() {
        page.push_str(".El\n");
    }
    match more.into_iter().next() {
        Some((name, (number, _))) => Err(Error::Option(number, name.to_owned())),
        None => Ok(()),
    }
}

/// Writes help as sentences of a manual page. Each starts with a capital letter on its own line and ends with a period.
fn prose(page: &mut String, help: &str) {
    let mut text = help.trim().to_owned();
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    let first = text.chars().next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let text =
        first + text.chars().next().map_or("", |first| text.get(first.len_utf8()..).unwrap_or_default());
    let mut line = String::new();
    for word in text.split_whitespace() {
        if let Some((option, after)) = option_named(word) {
            end_line(page, &mut line);
            page.push_str(&format!(".Fl -{option}{after}\n"));
            continue;
        }
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            end_line(page, &mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&escaped(word, line.is_empty()));
        // End the line after a sentence: roff sets the space.
        if word.ends_with(['.', '?', '!']) && !matches!(word, "e.g." | "i.e.") {
            end_line(page, &mut line);
        }
    }
    end_line(page, &mut line);
}

fn end_line(page: &mut String, line: &mut String) {
    if !line.is_empty() {
        page.push_str(line);
        page.push('\n');
        line.clear();
    }
}

/// The option that a word names, and the punctuation after it in mdoc's form: `--thin,` gives `thin` and ` ,`.
fn option_named(word: &str) -> Option<(&str, String)> {
    let name = word.strip_prefix("--")?;
    let end = name.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(name.len());
    let (name, after) = (name.get(..end)?, name.get(end..)?);
    let is_punctuation = after.chars().all(|c| matches!(c, ',' | '.' | ';' | ':' | ')'));
    let after: String = after.chars().flat_map(|c| [' ', c]).collect();
    (!name.is_empty() && is_punctuation).then_some((name, after))
}

/// Escapes a word of text. At the start of a line, roff must not take a period or quote for a request.
fn escaped(word: &str, begins_line: bool) -> String {
    let word = word.replace('\\', "\\e").replace('-', if word.starts_with('-') { "\\-" } else { "-" });
    match begins_line && word.starts_with(['.', '\'']) {
        true => format!("\\&{word}"),
        false => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(help: &str) -> String {
        let mut page = String::new();
        prose(&mut page, help);
        page
    }

    #[test]
    fn help_becomes_sentences() {
        assert_eq!(set("write JSON instead of text"), "Write JSON instead of text.\n");
        assert_eq!(set("one thing. 'Another', e.g. this"), "One thing.\n\\&'Another', e.g. this.\n");
        assert_eq!(set("leave out --thin, or not"), "Leave out\n.Fl -thin ,\nor not.\n");
        let long = set(&"words ".repeat(40));
        assert!(long.lines().count() == 4 && long.lines().all(|line| line.len() <= WIDTH), "{long}");
    }

    #[test]
    fn templates_that_ask_for_what_is_not() {
        let program = Program::iocreplay();
        let error = |template: &str| page(&program, template).unwrap_err();
        assert_eq!(error("@nothing"), Error::Directive(1, "@nothing".into()));
        assert_eq!(error("a\n@synopsis fly"), Error::Command(2, "fly".into()));
        assert_eq!(error("@options puts\n--fly\ntext\n@end"), Error::Option(2, "--fly".into()));
        assert_eq!(error("@options puts\ntext\n@end"), Error::Option(2, "text".into()));
        assert_eq!(error("@shared\n--utc"), Error::NoEnd(1));
    }

    #[test]
    fn lists_have_what_the_template_adds() {
        let page = page(&Program::iocreplay(), "@options puts\n--all\nNot by default.\n@end").unwrap();
        assert!(page.contains(".It Fl -all\nAlso show"), "{page}");
        assert!(page.contains(".\nNot by default.\n"), "{page}");
        assert!(!page.contains("-utc"), "it is shared: {page}");
    }
}
