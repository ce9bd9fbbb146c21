//! Why a value can't be restored, or not in a format.

use std::fmt;

/// Why a value is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its name is not known.
    Unnamed,
    /// No tool would take its name as it is.
    OddName,
    /// Its value is not known.
    Unknown,
    /// The log holds only a part of its value.
    Part,
    /// Its value is in doubt.
    Uncertain,
    /// Writing to it does something, such as PROC.
    Command,
    /// Its name came before.
    Twice,
    /// Nobody writes to it.
    ReadOnly,
    /// A text was expected.
    NotText,
    /// It is no number of a state.
    NotState,
    /// It is a text where the number of a state was expected.
    TextOfState,
    /// Its state has no name.
    StateWithoutName,
    /// Another state has the same name.
    StateNamedTwice,
    /// The names of its states are not known.
    StatesUnknown,
    /// Its text is longer than a string.
    LongText,
    /// Its text is not UTF-8.
    NotUtf8,
    /// caput would cut its text.
    CaputCuts,
    /// caput refuses the number.
    CaputTooSmall,
    /// caget can't show an empty array.
    CagetEmpty,
    /// autosave does not read its name.
    AutosaveName,
    /// autosave does not restore device supports.
    AutosaveDevice,
    /// autosave takes its text for a macro.
    AutosaveMacro,
    /// autosave takes its text for an array.
    AutosaveArray,
    /// Its text is longer than a line.
    AutosaveLine,
    /// A text in the array is longer than a string.
    AutosaveElement,
    /// autosave refuses the number.
    AutosaveTooSmall,
    /// autosave makes a finite number of an infinite one in an array of floats.
    AutosaveInfinite,
    /// autosave reads an integer of an array as a double.
    AutosaveTooLarge,
    /// BURT does not read its name.
    BurtName,
    /// BURT writes characters as letters.
    BurtLetter,
    /// It may be a character.
    BurtPerhapsLetter,
    /// BURT writes characters as letters.
    BurtLetters,
    /// BURT can't empty an array.
    BurtEmptyArray,
    /// BURT takes a text for the end of the array.
    BurtEmptyText,
    /// BURT has no escapes.
    BurtText,
    /// BURT would round the number.
    BurtTooLarge,
    /// Phoebus does not read its name.
    PhoebusName,
    /// Phoebus takes its text for something else.
    PhoebusTaken,
    /// Phoebus does not read empty arrays.
    PhoebusEmptyArray,
    /// Phoebus does not import such arrays.
    PhoebusArray,
    /// Phoebus does not read the name of a state.
    PhoebusState,
    /// Phoebus takes the name of its state for an array.
    PhoebusStateArray,
    /// Phoebus has no escapes.
    PhoebusText,
    /// Phoebus has no integers so large.
    PhoebusTooLarge,
    /// It was not known to exist at the first of two times.
    UnknownAtFirst,
    /// Writing to the field is a command, not a setting.
    CommandField,
    /// It has changed since the put.
    ChangedSince,
    /// Its value before the put is not known, or not all of it.
    UnknownBefore,
    /// Its value after the put is not known.
    UnknownAfter,
    /// Only a part of its value after the put is known.
    PartAfter,
    /// Between the puts it became a field of another type: its IOC was started anew with another record of that name.
    OtherType,
    /// Several IOCs have a record of this name, and which one answers to it is not known.
    SeveralIocs,
    /// A link or code in the IOC made the put.
    MadeInside,
    /// The put was refused.
    Refused,
    /// caput can't acknowledge an alarm.
    Acknowledges,
    /// It came over PVAccess to a PV that is no record: Channel Access may not have it.
    NoRecord,
    /// The log holds only a part of the requested value.
    PartRequested,
    /// Phoebus takes this text for a PV that is not connected.
    PhoebusNotConnected(String),
    /// This user wrote to it later; `None`: somebody else did.
    WrittenLater(Option<String>),
}

/// As a part of a sentence: "its value is not known".
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Unnamed => "its name is not known",
            Obstacle::OddName => "its name is none that a tool would take as it is",
            Obstacle::Unknown => "its value is not known",
            Obstacle::Part => "the log holds only a part of its value",
            Obstacle::Uncertain => "its value is not certain",
            Obstacle::Command => "it does something when written",
            Obstacle::Twice => "its name comes twice",
            Obstacle::ReadOnly => "it is only read",
            Obstacle::NotText => "its value is not text",
            Obstacle::NotState => "its value is no number of a state",
            Obstacle::TextOfState => "a text is no number of a state",
            Obstacle::StateWithoutName => "its state has no name",
            Obstacle::StateNamedTwice => "another state has the same name",
            Obstacle::StatesUnknown => "the names of its states are not known",
            Obstacle::LongText => "its text is longer than the 39 characters of a string",
            Obstacle::NotUtf8 => "its text is not UTF-8",
            Obstacle::CaputCuts => "caput would cut its text after 39 characters, escapes included",
            Obstacle::CaputTooSmall => "caput refuses numbers so close to 0",
            Obstacle::CagetEmpty => "caget can't show that an array is empty",
            Obstacle::AutosaveName => "autosave does not read its name",
            Obstacle::AutosaveDevice => "autosave does not restore device supports",
            Obstacle::AutosaveMacro => "autosave takes $( and ${ for a macro",
            Obstacle::AutosaveArray => "autosave would read its text as an array",
            Obstacle::AutosaveLine => "its text is longer than a line that autosave reads",
            Obstacle::AutosaveElement => "a text in it is longer than the 39 characters that autosave reads",
            Obstacle::AutosaveTooSmall => "autosave refuses numbers so close to 0",
            Obstacle::AutosaveInfinite => "autosave makes finite numbers of infinities in an array of floats",
            Obstacle::AutosaveTooLarge => {
                "autosave may read so large an integer in an array as a double, which has fewer digits"
            }
            Obstacle::BurtName => "BURT does not read its name",
            Obstacle::BurtLetter => "BURT writes it as a letter",
            Obstacle::BurtPerhapsLetter => {
                "whether it is a character, which BURT writes as a letter, is not known"
            }
            Obstacle::BurtLetters => "BURT writes its elements as letters",
            Obstacle::BurtEmptyArray => "BURT can't empty an array",
            Obstacle::BurtEmptyText => "BURT takes an empty text for the end of the array",
            Obstacle::BurtText => {
                "BURT has no way to write a text with quotation marks, %, backslashes or control characters"
            }
            Obstacle::BurtTooLarge => "BURT reads so large an integer as a double, which has fewer digits",
            Obstacle::PhoebusName => "Phoebus does not read its name",
            Obstacle::PhoebusTaken => "Phoebus takes a text with ~ or [ at its start for something else",
            Obstacle::PhoebusEmptyArray => "Phoebus takes an empty array for one with an element",
            Obstacle::PhoebusArray => "Phoebus does not import arrays of this type",
            Obstacle::PhoebusState => "Phoebus does not read the name of a state with ~ or ;",
            Obstacle::PhoebusStateArray => "Phoebus takes the name of its state for an array",
            Obstacle::PhoebusText => {
                "Phoebus has no way to write a text with quotation marks or control characters"
            }
            Obstacle::PhoebusTooLarge => "Phoebus has no integers so large",
            Obstacle::UnknownAtFirst => "its value at the first time is not known",
            Obstacle::CommandField => "writing to this field is a command, not a setting",
            Obstacle::ChangedSince => "it has changed again since",
            Obstacle::UnknownBefore => "its value before the put is not known, or not all of it",
            Obstacle::UnknownAfter => "its value after the put is not known",
            Obstacle::PartAfter => "only a part of its value after the put is known",
            Obstacle::OtherType => "its record has another type now than at the first of these puts",
            Obstacle::SeveralIocs => {
                "several IOCs have a PV of this name, and which one answers to it is not known; choose one with --ioc"
            }
            Obstacle::MadeInside => "made by a link or by code in the IOC",
            Obstacle::Refused => "refused",
            Obstacle::Acknowledges => "it acknowledges an alarm, which caput can't",
            Obstacle::NoRecord => "it came over PVAccess, and is no record that caput would find",
            Obstacle::PartRequested => "the log holds only a part of the value",
            Obstacle::PhoebusNotConnected(text) => {
                return write!(f, "Phoebus takes \"{text}\" for a PV that is not connected");
            }
            // a user may be called nobody
            Obstacle::WrittenLater(Some(user)) => return write!(f, "the user {user} wrote to it later"),
            Obstacle::WrittenLater(None) => "somebody else wrote to it later",
        })
    }
}

impl std::error::Error for Obstacle {}
