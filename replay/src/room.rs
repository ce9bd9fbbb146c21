//! Room for what there may be a hundred thousand of.

/// Makes room for one more, and for an eighth of what is there: a vector that doubles would leave megabytes unused.
pub fn for_one_more<T>(all: &mut Vec<T>) {
    if all.len() == all.capacity() {
        all.reserve_exact(all.len() / 8 + 16);
    }
}
