//! Names of IOCs as they are shown: those that share one have their process ids behind it. So has one that would pass for
//! another IOC, or for a process of one. And those of records that a log doesn't name.

use crate::pattern::Pattern;
use iocrec_log::event::Fact;
use iocrec_log::reader::Shown;

/// What stands between the name and the process id.
const PID: &str = " pid ";

/// What a record is called whose definition is missing, with its number behind it.
pub const UNNAMED: &str = "record #";

/// Whether this may be the name of a record that the log doesn't name: no definition has it.
pub fn may_be_unnamed(name: &str) -> bool {
    name.starts_with(UNNAMED)
}

/// The name of a process with its id, which it may have already.
pub fn with_pid(name: &str, pid: u32) -> String {
    format!("{}{PID}{pid}", without_pid(name, pid))
}

/// The name of a process without its id.
pub fn without_pid(name: &str, pid: u32) -> &str {
    let ours = |text: &str| text.parse() == Ok(pid);
    split(name).filter(|(_, text)| ours(text)).map_or(name, |(name, _)| name)
}

/// The name of an IOC as it calls itself.
pub fn own_name(shown: &str) -> &str {
    let is_pid = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    split(shown).filter(|(_, text)| is_pid(text)).map_or(shown, |(name, _)| name)
}

/// Whether a name ends as that of an IOC does which is shown with its process id.
pub fn ends_like_process(name: &str) -> bool {
    own_name(name) != name
}

fn split(shown: &str) -> Option<(&str, &str)> {
    shown.rsplit_once(PID).filter(|(name, _)| !name.is_empty())
}

/// Whether a process of the second name may have followed the first: it has its name, also if the first is shown with its
/// process id because it was asked for by that. Those that ran side by side are all shown with theirs, and don't follow
/// each other.
pub fn may_follow(before: &str, pid: u32, name: &str) -> bool {
    !name.is_empty() && (before == name || without_pid(before, pid) == name)
}

/// Whether a pattern names processes: `NAME pid N`.
pub fn names_process(pattern: &Pattern) -> bool {
    split(pattern.text()).is_some()
}

/// Whether a pattern selects an IOC: as it is shown, or by the name that it shares with others. One that names a process selects
/// none that only calls itself so.
pub fn selects(pattern: &Pattern, shown: &str) -> bool {
    let has_own = ends_like_process(shown) && !ends_like_process(pattern.text());
    pattern.matches(shown) || (has_own && pattern.matches(own_name(shown)))
}

/// Whether a name can be taken for that of another IOC: it ends as one does that is shown with its process id, or has blanks that
/// nobody sees in a column.
fn looks_like_another(name: &str) -> bool {
    let is_blank = |letter: char| letter.is_whitespace() || letter == '\u{2800}';
    let has_odd = name.contains(|letter: char| is_blank(letter) && letter != ' ');
    !name.is_empty() && (has_odd || ends_like_process(name) || name.split(' ').any(str::is_empty))
}

/// Gives an IOC the name by which it is shown. `shown`: those of IOCs that share one.
pub(crate) fn show(fact: &mut Fact, shown: Option<&Shown>) {
    let Fact::Ioc(ioc) = fact else { return };
    if let Some(shown) = shown.and_then(|shown| shown.get(&(ioc.name.clone(), ioc.pid, ioc.start))) {
        ioc.name.clone_from(shown);
    } else if looks_like_another(&ioc.name) {
        ioc.name = with_pid(&ioc.name, ioc.pid);
    }
}
