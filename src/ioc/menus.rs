//! Menus and device supports: the strings for the values of MENU and DEVICE fields.

use iocrec_log::event::Dbf;

use crate::ioc::layout::{Layout, MAX_NAME};
use crate::ioc::offsets::Database;
use crate::linux::memory::Memory;
use crate::linux::width::u32_at;

/// More choices than a menu has: `menuFtype` has 12, `menuScan` 10 plus the site's own; a record type has some 50
/// device supports in the largest IOCs.
const MAX_CHOICES: usize = 1000;
/// Longest string of a choice: MAX_STRING_SIZE; that of a device support may be longer.
const MAX_CHOICE: usize = 80;

/// A menu, or the device supports of a record type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MenuAt {
    /// Address of the dbMenu or dbDeviceMenu.
    pub address: u64,
    /// Name of the menu; for device supports the name of the record type.
    pub name: String,
    /// Strings, by value.
    pub choices: Vec<String>,
}

/// Reads the menu of the MENU or DEVICE field whose description has this address. `None` if it is not such a field, or
/// the menu is implausible.
pub fn menu(memory: &Memory, layout: &Layout, description: u64) -> Option<MenuAt> {
    let (rtype, _, dbf) = layout.field(memory, description)?;
    let offsets = Database::of(memory.width());
    let address = memory.pointer(description.checked_add(offsets.field_private as u64)?)?;
    let bytes = if dbf == Dbf::Menu { offsets.menu_bytes } else { offsets.device_bytes };
    let bytes: [u8; Database::MAX_BYTES] = memory.head(address, bytes)?;
    let pointer = |at| memory.width().pointer(&bytes, at);
    let (name, count, list) = match dbf {
        Dbf::Menu => {
            let name = memory.string(pointer(offsets.menu_name), MAX_NAME)?;
            (name, u32_at(&bytes, offsets.menu_count), pointer(offsets.menu_values))
        }
        Dbf::Device => (rtype, u32_at(&bytes, 0), pointer(offsets.device_choices)),
        _ => return None,
    };
    let count = usize::try_from(count).ok().filter(|&count| count <= MAX_CHOICES)?;
    let width = memory.width().bytes();
    let mut pointers = vec![0; count * width];
    let read = memory.read(list, &mut pointers);
    let strings = pointers.chunks_exact(width).map(|pointer| memory.width().pointer(pointer, 0));
    let choices = strings.map(|string| memory.string(string, MAX_CHOICE).unwrap_or_default());
    read.then(|| MenuAt { address, name, choices: choices.collect() })
}
