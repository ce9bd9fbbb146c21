//! The memory that a reader process inherits and has no use for: what the recorder knows, its rings, and the stacks of its
//! other threads.
//!
//! The kernel shares it until one of the two writes to it. The recorder always does, so each reader would come to hold all
//! of it as it was when the reader began: 4.5 MiB in each of seven, after ten minutes of a busy plant. A reader that is
//! stuck would hold a recorder's rings for longer than the recorder lives.

use std::cmp::Reverse;

use crate::linux::proc;

/// Mappings that are released at most, the largest: a recorder of 10,000 records has some thirty.
const MOST: usize = 64;

/// What to release, as a list that lies on the stack: first address and length of each mapping.
#[derive(Debug)]
pub struct Inherited {
    mappings: [(usize, usize); MOST],
    count: usize,
}

impl Inherited {
    /// What a child of this process can do without if it uses no more than the stack of this thread, statics, and what
    /// lies at `kept`. Nothing if that can't be read.
    pub fn by_a_child(kept: usize) -> Inherited {
        let on_stack = &raw const kept as usize;
        // SAFETY: returns an address. It lies in the block that the C library keeps for this thread.
        let of_thread = unsafe { libc::__errno_location() } as usize;
        let kept = [kept, on_stack, of_thread];
        let text = proc::contents("/proc/self/maps".as_ref()).unwrap_or_default();
        let mut found = dispensable(&String::from_utf8_lossy(&text));
        found.retain(|(start, end)| !kept.iter().any(|at| (start..end).contains(&at)));
        found.sort_by_key(|(start, end)| Reverse(end - start));
        let mut inherited = Inherited { mappings: [(0, 0); MOST], count: found.len().min(MOST) };
        for (mapping, (start, end)) in inherited.mappings.iter_mut().zip(found) {
            *mapping = (start, end - start);
        }
        inherited
    }

    /// Gives it back.
    ///
    /// # Safety
    /// Call it in the child, on the thread that made the list, and use nothing afterwards that was not kept: no heap, no
    /// lock, no thread.
    pub unsafe fn release(&self) {
        for &(at, length) in self.mappings.iter().take(self.count) {
            // SAFETY: nothing uses it, the caller promises. What another thread of the recorder has put there since the
            // list was made is of no more use here.
            unsafe { libc::munmap(at as *mut libc::c_void, length) };
        }
    }
}

/// Mappings of writable memory that are no part of a program: first address, and the address after the last. Of a text as
/// in /proc/PID/maps (proc(5)).
fn dispensable(maps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut file_ends = 0;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let hex = |text| usize::from_str_radix(text, 16).ok();
        let Some((start, end)) = range.and_then(|(start, end)| Some((hex(start)?, hex(end)?))) else {
            continue;
        };
        let permissions = words.next().unwrap_or_default();
        let inode = words.nth(2).unwrap_or_default();
        let name = words.next().unwrap_or_default();
        let is_shared = permissions.ends_with('s');
        if inode != "0" && !is_shared {
            file_ends = end;
        }
        // A program's variables that are zero at first follow those that are not; its heap may begin in the same mapping.
        let is_of_file = start == file_ends;
        let is_private =
            permissions == "rw-p" && inode == "0" && matches!(name, "" | "[heap]") && !is_of_file;
        if end > start && (is_private || is_shared) {
            found.push((start, end));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_program_is_dispensable() {
        let maps = "\
            00200000-00280000 r--p 00000000 fe:00 77 /usr/bin/iocrec\n\
            00280000-00284000 rw-p 00080000 fe:00 77 /usr/bin/iocrec\n\
            00284000-00290000 rw-p 00000000 00:00 0\n\
            00a00000-00b00000 rw-p 00000000 00:00 0 [heap]\n\
            7f0000000000-7f0000001000 ---p 00000000 00:00 0\n\
            7f0000001000-7f0000021000 rw-p 00000000 00:00 0\n\
            7f0000021000-7f0000061000 rw-s 00000000 00:0e 9 anon_inode:[perf_event]\n\
            7f0000061000-7f0000081000 rw-s 00000000 00:01 5 /dev/zero (deleted)\n\
            7f0000081000-7f0000082000 rw-p 00000000 fe:00 78 /usr/lib/libc.so.6\n\
            7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n\
            7ffc00022000-7ffc00026000 r--p 00000000 00:00 0 [vvar]\n\
            what is this\n";
        let expected = [
            (0x00a0_0000, 0x00b0_0000),
            (0x7f00_0000_1000, 0x7f00_0002_1000),
            (0x7f00_0002_1000, 0x7f00_0006_1000),
            (0x7f00_0006_1000, 0x7f00_0008_1000),
        ];
        assert_eq!(dispensable(maps), expected);
        let heap_in_variables = "00280000-00284000 rw-p 00080000 fe:00 77 /usr/bin/iocrec\n\
            00284000-00b00000 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(dispensable(heap_in_variables), []);
    }
}
