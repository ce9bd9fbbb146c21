//! Shared parts of the command lines of `iocrec` and `iocreplay`: options defined once for several commands, and
//! aliases of options. argh parses the command lines; this crate adds features that argh lacks. Its only code at run
//! time is [`alias::resolve`].
//!
//! # A new command
//! Put options that only this command has into its struct. Options that other commands share are groups; name them
//! after `with`. Define a group with [`option_group!`]. Its struct holds the values; make it from the command with
//! `From`:
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
//! In another module, import the group's macro as well as its struct: `use super::options::{log_directory,
//! LogDirectory}`. Positional arguments of a group come after those of the command.
//!
//! # An alias of an option
//! argh has no aliases. Give the program one table of [`alias::Alias`]es, pass the arguments through [`alias::resolve`]
//! before argh sees them, and name the alias in the option's help.
//!
//! # Help, manual pages, shell completions
//! `command!` derives argh's `ArgsInfo`, from which the crate `iocrec-pages` makes manual pages and completions.

pub mod alias;

/// Defines a group of options that several commands share: a struct, and a macro with which [`command!`] adds its
/// fields to a command. The leading `$` is necessary because a macro can't produce one by itself.
///
/// Write a field as for argh: its help, its `#[argh(...)]`, its name and type (a plain type, or `Option` or `Vec` of
/// one). Types and functions are resolved in the command's module, so write full paths, as in
/// `Option<std::path::PathBuf>` and `from_str_fn(crate::options::size)`.
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

/// Defines a command: an argh struct with its own options and those of the groups after `with`. Write each group as
/// `macro: Struct` of an [`option_group!`].
#[macro_export]
macro_rules! command {
    // The command as written.
    (
        $(#[$($attribute:tt)*])*
        $vis:vis struct $Command:ident { $($own:tt)* }
        $(with $($group:ident: $Group:ident),+ $(,)?)?
    ) => {
        $crate::command! { @next [$($($group: $Group),+)?] [$(#[$($attribute)*])*] [$vis] $Command [$($own)*] [] }
    };
    // Ask the next group for its fields.
    (@next [$group:ident: $Group:ident $(, $($rest:tt)*)?] $($state:tt)*) => {
        $group! { $Group [$($($rest)*)?] $($state)* }
    };
    // The group has returned them.
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
    // All fields are collected.
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
