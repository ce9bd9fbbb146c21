//! What there is to know of a program's command line.

use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality, SubCommandInfo};
use iocrec_cli::alias::Alias;
use iocreplay::commands::Arguments;
use iocreplay::output::{puts, traces};

/// A program.
pub struct Program {
    /// What it is called.
    pub name: &'static str,
    /// Its options and commands.
    pub info: CommandInfoWithArgs,
    /// Other names of options.
    pub aliases: &'static [Alias],
    /// Values that an option can have: command, option, values.
    pub choices: Vec<Choice>,
}

/// Values that an option can have.
pub struct Choice {
    /// The command; `None`: every command that has the option.
    pub command: Option<&'static str>,
    /// The option.
    pub option: &'static str,
    /// The values.
    pub values: Vec<&'static str>,
}

/// What an option's value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// It has none.
    None,
    /// One of these.
    OneOf(Vec<&'static str>),
    /// A file or directory.
    File,
    /// A directory.
    Directory,
    /// Anything else.
    Text,
}

impl Program {
    /// The agent.
    pub fn iocrec() -> Program {
        let tiers = vec!["auto", "ring", "perf", "packet"];
        Program {
            name: "iocrec",
            info: iocrec::cli::args_info(),
            aliases: iocrec::cli::ALIASES,
            choices: vec![Choice { command: None, option: "--tier", values: tiers }],
        }
    }

    /// The reader.
    pub fn iocreplay() -> Program {
        let formats = |command, values| Choice { command: Some(command), option: "--format", values };
        Program {
            name: "iocreplay",
            info: Arguments::get_args_info(),
            aliases: &[],
            choices: vec![
                formats("puts", puts::FORMATS.iter().map(|format| format.name).collect()),
                formats("traces", traces::FORMATS.iter().map(|format| format.name).collect()),
            ],
        }
    }

    /// Its commands.
    pub fn commands(&self) -> &[SubCommandInfo] {
        &self.info.commands
    }

    /// The command of that name.
    pub fn command(&self, name: &str) -> Option<&CommandInfoWithArgs> {
        self.commands().iter().find(|command| command.name == name).map(|command| &command.command)
    }

    /// Other names of an option.
    pub fn aliases<'a>(&'a self, option: &'a str) -> impl Iterator<Item = &'static str> + 'a {
        self.aliases.iter().filter(move |alias| alias.option == option).map(|alias| alias.alias)
    }

    /// Is the option one that several commands share, word for word?
    pub fn is_shared(&self, option: &FlagInfo) -> bool {
        let same = |other: &&FlagInfo| other.long == option.long && other.description == option.description;
        self.commands().iter().filter(|command| options(&command.command).any(|other| same(&other))).count()
            > 1
    }

    /// What the value of a command's option is.
    pub fn value(&self, command: &str, option: &FlagInfo) -> Value {
        let FlagInfoKind::Option { arg_name } = option.kind else { return Value::None };
        let chosen = |choice: &&Choice| {
            choice.option == option.long && choice.command.is_none_or(|only| only == command)
        };
        match (self.choices.iter().find(chosen), arg_name) {
            (Some(choice), _) => Value::OneOf(choice.values.clone()),
            (None, "file") => Value::File,
            (None, "dir") => Value::Directory,
            _ => Value::Text,
        }
    }
}

/// The options of a command that help shows, without `--help`.
pub fn options(command: &CommandInfoWithArgs) -> impl Iterator<Item = &FlagInfo<'static>> {
    command.flags.iter().filter(|flag| flag.long != "--help" && !flag.hidden)
}

/// Are the last arguments of a command files?
pub fn takes_files(command: &CommandInfoWithArgs) -> bool {
    command.positionals.iter().any(|positional| positional.name == "log")
}

/// May it be left out?
pub fn is_optional(optionality: &Optionality) -> bool {
    !matches!(optionality, Optionality::Required)
}

/// A description as a sentence begins: the completions' way, short and without a period.
pub fn summary(description: &str) -> String {
    let description = description.trim();
    // The first sentence, or what stands before an explanation.
    let end = [". ", "; ", ": ", " (", ", e.g."].iter().filter_map(|mark| description.find(mark)).min();
    description
        .get(..end.unwrap_or(description.len()))
        .unwrap_or(description)
        .trim_end_matches('.')
        .to_owned()
}
