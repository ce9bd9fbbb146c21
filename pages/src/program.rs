//! Descriptions of the programs' command lines.

use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality, SubCommandInfo};
use iocrec_cli::alias::Alias;
use iocreplay::commands::Arguments;
use iocreplay::live::output as follow;
use iocreplay::output::settings::Chosen;
use iocreplay::output::{at, diff, graph, logs, metrics, profile, puts, traces, values};

/// A program.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Its options and commands.
    pub info: CommandInfoWithArgs,
    /// Aliases of options.
    pub aliases: &'static [Alias],
    /// Options with a fixed set of values.
    pub choices: Vec<Choice>,
}

/// The fixed set of values of an option.
pub struct Choice {
    /// The command; `None` for every command that has the option.
    pub command: Option<&'static str>,
    /// The option.
    pub option: &'static str,
    /// The values.
    pub values: Vec<&'static str>,
}

/// The kind of an option's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The option has no value.
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
                formats("at", Chosen::names(&at::FORMATS)),
                formats("diff", Chosen::names(&diff::FORMATS)),
                formats("values", values::FORMATS.iter().map(|format| format.name).collect()),
                formats("traces", traces::FORMATS.iter().map(|format| format.name).collect()),
                formats("follow", follow::FORMATS.iter().map(|format| format.name).collect()),
                formats("logs", logs::FORMATS.iter().map(|format| format.name).collect()),
                formats("metrics", metrics::FORMATS.iter().map(|format| format.name).collect()),
                formats("graph", graph::FORMATS.iter().map(|format| format.name).collect()),
                formats("profile", profile::FORMATS.iter().map(|format| format.name).collect()),
                Choice { command: None, option: "--format", values: vec!["text", "jsonl", "csv"] },
            ],
        }
    }

    /// Its commands.
    pub fn commands(&self) -> &[SubCommandInfo] {
        &self.info.commands
    }

    /// The command with this name.
    pub fn command(&self, name: &str) -> Option<&CommandInfoWithArgs> {
        self.commands().iter().find(|command| command.name == name).map(|command| &command.command)
    }

    /// Aliases of an option.
    pub fn aliases<'a>(&'a self, option: &'a str) -> impl Iterator<Item = &'static str> + 'a {
        self.aliases.iter().filter(move |alias| alias.option == option).map(|alias| alias.alias)
    }

    /// Whether several commands share the option verbatim.
    pub fn is_shared(&self, option: &FlagInfo) -> bool {
        let same = |other: &&FlagInfo| other.long == option.long && other.description == option.description;
        self.commands().iter().filter(|command| options(&command.command).any(|other| same(&other))).count()
            > 1
    }

    /// The kind of value of a command's option.
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

/// Whether the last arguments of a command are files.
pub fn takes_files(command: &CommandInfoWithArgs) -> bool {
    command.positionals.iter().any(|positional| positional.name == "log")
}

/// Whether the option may be left out.
pub fn is_optional(optionality: &Optionality) -> bool {
    !matches!(optionality, Optionality::Required)
}

/// The start of a description, for completions: short and without a period.
pub fn summary(description: &str) -> String {
    let description = description.trim();
    // The first sentence, or the part before an explanation.
    let end = [". ", "; ", ": ", " (", ", e.g."].iter().filter_map(|mark| description.find(mark)).min();
    description
        .get(..end.unwrap_or(description.len()))
        .unwrap_or(description)
        .trim_end_matches('.')
        .to_owned()
}
