//! Maps by the numbers that a log gives to threads, records and other things.
//!
//! Every event looks several of them up, so they are hashed fast. A hostile log cannot choose numbers, or names, that
//! collide: the hash depends on a number that each process draws for itself.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A map by anything else that events look up: names, or several numbers.
pub type Keyed<Key, Value> = HashMap<Key, Value, RandomState>;

/// A map by number.
pub type Numbered<Number, Value> = HashMap<Number, Value, RandomState>;
