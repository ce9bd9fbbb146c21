//! What the command lines of `iocrec` and `iocreplay` share: options written once for several commands, and other names
//! of options. The command lines themselves are argh's; this adds what argh can't do, and nothing that runs but
//! [`alias::resolve`].
//!
//! # A new command
//! Options that it alone has stand in its struct; those that others have, too, are groups, which follow `with`. A group is
//! an [`option_group!`]; its struct holds the values, and comes from the command with `From`:
//!
//! ```
//! use iocrec_cli::{command, option_group};
//!
//! option_group! { $
//!     /// The directory of the log.
//!     pub struct LogDirectory as log_directory {
//!         /// directory of the log
//!         #[argh(option)]
//!         dir: String,
//!     }
//! }
//!
//! command! {
//!     /// Show recorder status
//!     #[argh(subcommand, name = "status")]
//!     pub struct Status {
//!         /// write JSON
//!         #[argh(switch)]
//!         pub json: bool,
//!     } with log_directory: LogDirectory
//! }
//!
//! use argh::FromArgs;
//! let status = Status::from_args(&["status"], &["--json", "--dir", "/var/log/iocrec"]).unwrap();
//! assert!(status.json);
//! assert_eq!(LogDirectory::from(&status).dir, "/var/log/iocrec");
//! ```
//!
//! In another module, import the group's macro as well as its struct: `use super::options::{log_directory, LogDirectory}`.
//! Positional arguments of a group come after those of the command.
//!
//! # Another name of an option
//! argh knows none. Give the program one table of [`alias::Alias`]es, let the arguments pass through [`alias::resolve`]
//! before argh sees them, and name the alias in the option's help.
//!
//! # Help, manual pages, shell completions
//! `command!` derives argh's `ArgsInfo`, from which crate `iocrec-pages` makes manual pages and completions.

pub mod alias;

/// Defines a group of options that several commands share: a struct, and a macro by which [`command!`] adds its fields to
/// a command. The `$` at the beginning is needed since macros can't write one by themselves.
///
/// A field is as argh has it: its help, its `#[argh(...)]`, its name and type (a plain type, `Option` or `Vec` of one).
/// Types and functions are looked up where the command is: write their full paths, as in `Option<std::path::PathBuf>` and
/// `from_str_fn(crate::options::size)`.
#[macro_export]
macro_rules! option_group {
    ($dollar:tt
        $(#[doc = $about:tt])*
        $vis:vis struct $Group:ident as $group:ident {
            $(
                $(#[doc = $help:tt])*
                #[argh($($argh:tt)*)]
                $field:ident: $($type:ident)::+ $(<$($inner:ident)::+>)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        $vis struct $Group {
            $( $(#[doc = $help])* pub $field: $($type)::+ $(<$($inner)::+>)?, )*
        }

        #[doc(hidden)]
        #[allow(unused_macros)]
        macro_rules! $group {
            ($dollar($dollar state:tt)*) => {
                $crate::command! {
                    @group [$( { $(#[doc = $help])* #[argh($($argh)*)] } $field { $($type)::+ $(<$($inner)::+>)? } )*]
                    $dollar($dollar state)*
                }
            };
        }
        #[allow(unused_imports)]
        pub(crate) use $group;
    };
}

/// Defines a command: a struct of argh's with its own options and those of the groups that follow `with`, each as
/// `macro: Struct` of an [`option_group!`].
#[macro_export]
macro_rules! command {
    // The command as it is written.
    (
        $(#[$($attribute:tt)*])*
        $vis:vis struct $Command:ident { $($own:tt)* }
        $(with $($group:ident: $Group:ident),+ $(,)?)?
    ) => {
        $crate::command! { @next [$($($group: $Group),+)?] [$(#[$($attribute)*])*] [$vis] $Command [$($own)*] [] }
    };
    // The next group is asked for its fields.
    (@next [$group:ident: $Group:ident $(, $($rest:tt)*)?] $($state:tt)*) => {
        $group! { $Group [$($($rest)*)?] $($state)* }
    };
    // It has given them.
    (
        @group [$( { $($attribute:tt)* } $field:ident { $($type:tt)* } )*]
        $Group:ident [$($rest:tt)*] $attributes:tt $vis:tt $Command:ident [$($fields:tt)*] [$($groups:tt)*]
    ) => {
        $crate::command! {
            @next [$($rest)*] $attributes $vis $Command
            [$($fields)* $( $($attribute)* pub $field: $($type)*, )*]
            [$($groups)* { $Group $($field)* }]
        }
    };
    // All are there.
    (
        @next [] [$($attributes:tt)*] [$vis:vis] $Command:ident [$($fields:tt)*]
        [$( { $Group:ident $($field:ident)* } )*]
    ) => {
        #[derive(Debug, ::argh::FromArgs, ::argh::ArgsInfo)]
        $($attributes)*
        $vis struct $Command { $($fields)* }

        $(
            impl From<&$Command> for $Group {
                fn from(command: &$Command) -> Self {
                    $Group { $( $field: command.$field.clone(), )* }
                }
            }
        )*
    };
}
