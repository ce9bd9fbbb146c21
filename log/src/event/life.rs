//! The life of a definition: it comes into force, is repeated in the keyframe of each segment, is replaced, and ends.
//!
//! Each definition describes its own life ([`Definition`]). The [`context`](crate::context) treats all of them in the
//! same way.

use super::ids::*;
use std::mem::size_of;

/// The thing that has ended, along with everything that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process of an IOC.
    Ioc(IocId),
    /// The recording of an IOC's hits.
    Recording(IocId),
    /// A circuit.
    Circuit(CircuitId),
    /// A channel.
    Channel(ChannelId),
    /// A thread's standing still.
    Stuck(u32),
    /// An open of a file.
    File(u32),
}

/// The owner of a definition. The definition ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnedBy {
    /// The run. The definition ends only by an end of its own, if it has one.
    Run,
    /// The IOC of [`Definition::owner`].
    Ioc,
    /// The record whose number is its key.
    Record,
    /// The circuit of [`Definition::owner`].
    Circuit,
    /// The thread whose number is its key, and the circuit of [`Definition::owner`].
    ThreadAndCircuit,
}

/// Effect of a definition on the one in force under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin<K> {
    /// This one is in force now.
    Keep(K),
    /// Nothing changes.
    AsBefore,
    /// Nothing is in force under this key any longer.
    End,
    /// The definition is invalid: no recorder would have written it.
    Refuse,
}

/// A definition that is kept under a key.
pub trait Definition: Sized {
    /// The part of it that is kept while it is in force.
    type Kept: Clone + std::fmt::Debug;
    /// Its owner.
    const OWNED_BY: OwnedBy;
    /// Its place in a keyframe. Without one, a definition is sorted by its fact's number. With one, it follows the fact
    /// that the first number names; the second number orders those that follow the same fact. Whatever a definition
    /// refers to must come before it. (The first keyframes had this order, and keyframes must not change.)
    const PLACE: Option<(u16, u16)> = None;

    /// The number under which it is kept.
    fn key(&self) -> u32;

    /// Brings it into force in place of `before`, which was in force under its key.
    fn begin(&self, before: Option<&Self::Kept>) -> Begin<Self::Kept>;

    /// The definitions that bring the kept one into force again.
    fn again(key: u32, kept: &Self::Kept) -> impl Iterator<Item = Self>;

    /// Heap memory of the kept definition, in bytes.
    fn heap(kept: &Self::Kept) -> usize;

    /// The number of its owner (see [`OwnedBy`]).
    fn owner(_: &Self::Kept) -> u32 {
        0
    }

    /// The key of the definition that `ended` ends directly, not through an owner.
    fn ended_by(_: Ended) -> Option<u32> {
        None
    }
}

/// A definition that is kept whole, as most are.
pub trait Whole: Clone + std::fmt::Debug {
    /// See [`Definition::OWNED_BY`].
    const OWNED_BY: OwnedBy;
    /// See [`Definition::PLACE`].
    const PLACE: Option<(u16, u16)> = None;

    /// See [`Definition::key`].
    fn key(&self) -> u32;

    /// See [`Definition::heap`].
    fn heap(&self) -> usize;

    /// See [`Definition::owner`].
    fn owner(&self) -> u32 {
        0
    }

    /// See [`Definition::ended_by`].
    fn ended_by(_: Ended) -> Option<u32> {
        None
    }
}

/// The members of [`Whole`] of a definition that an IOC owns: its members `id` and `ioc` are key and owner.
macro_rules! owned_by_ioc {
    () => {
        const OWNED_BY: OwnedBy = OwnedBy::Ioc;

        fn key(&self) -> u32 {
            self.id
        }

        fn owner(&self) -> u32 {
            self.ioc
        }
    };
}
pub(crate) use owned_by_ioc;

impl<T: Whole> Definition for T {
    type Kept = T;
    const OWNED_BY: OwnedBy = <T as Whole>::OWNED_BY;
    const PLACE: Option<(u16, u16)> = <T as Whole>::PLACE;

    fn key(&self) -> u32 {
        Whole::key(self)
    }

    fn begin(&self, _: Option<&T>) -> Begin<T> {
        Begin::Keep(self.clone())
    }

    fn again(_: u32, kept: &T) -> impl Iterator<Item = T> {
        std::iter::once(kept.clone())
    }

    fn heap(kept: &T) -> usize {
        kept.heap()
    }

    fn owner(kept: &T) -> u32 {
        Whole::owner(kept)
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        <T as Whole>::ended_by(ended)
    }
}

/// Bytes that an allocation takes, as measured (tests/memory.rs). This includes the allocator's overhead; without it,
/// many small objects would take twice their allowance. 0 for no bytes.
pub fn allocated(bytes: usize) -> usize {
    const LEAST: usize = 32;
    const STEP: usize = 16;
    match bytes {
        0 => 0,
        bytes => bytes.saturating_add(size_of::<usize>()).next_multiple_of(STEP).max(LEAST),
    }
}

/// Bytes that a list of strings takes.
pub(crate) fn texts<T: AsRef<str>>(texts: &[T]) -> usize {
    let each = texts.iter().map(|text| allocated(text.as_ref().len()));
    allocated(size_of_val(texts)) + each.sum::<usize>()
}

/// A definition that exists once per run: the latest is in force.
pub trait Single: Clone {
    /// See [`Definition::PLACE`].
    const PLACE: Option<(u16, u16)> = None;
}
