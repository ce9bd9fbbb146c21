//! Structs and enums that BPF programs in C and the agent share.
//!
//! `shared!` and `shared_enum!` declare the Rust side. They make types, and descriptions with which a test compares
//! these types to the C side.

/// A member of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name in C.
    pub name: &'static str,
    /// Offset in the struct, bytes.
    pub offset: usize,
    /// Size, bytes.
    pub size: usize,
}

/// The layout of a struct, for comparison with that in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name in C.
    pub name: &'static str,
    /// Size, bytes.
    pub size: usize,
    /// All members in order.
    pub members: &'static [Member],
}

/// A struct that C and Rust share.
///
/// # Safety
/// It has no padding, and any bytes are a valid value. `shared!` asserts the first; use it only with numbers, arrays of
/// bytes and other shared structs.
pub unsafe trait Shared: Copy {
    /// Its members.
    const MEMBERS: &'static [Member];

    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        // evaluates the assertion in it
        const { _ = Self::MEMBERS };
        // SAFETY: a reference to it is valid for that many bytes, which are all initialized: there is no padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The value at the start of `bytes`; `None` if there are too few.
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..size_of::<Self>())?;
        // SAFETY: that many bytes are there, they need not be aligned, and any bytes are a value.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// All zeroes.
    fn zeroed() -> Self {
        // SAFETY: any bytes are a value.
        unsafe { std::mem::zeroed() }
    }

    /// Its layout under its name in C.
    fn layout(name: &'static str) -> Struct {
        Struct { name, size: size_of::<Self>(), members: Self::MEMBERS }
    }
}

/// Declares a struct that C and Rust share; array sizes that differ between C structs are in brackets.
macro_rules! shared {
    ($($(#[$about:meta])* $name:ident $([$n:ident])? { $($(#[$what:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name $(<const $n: usize>)? {
            $($(#[$what])* pub $field: $type,)*
        }

        // SAFETY: numbers, bytes and shared structs; the lack of padding is asserted.
        unsafe impl $(<const $n: usize>)? $crate::bpf::shared::Shared for $name $(<$n>)? {
            const MEMBERS: &'static [$crate::bpf::shared::Member] = {
                assert!(size_of::<Self>() == 0 $(+ size_of::<$type>())*, "padding");
                &[$($crate::bpf::shared::Member {
                    name: stringify!($field),
                    offset: std::mem::offset_of!(Self, $field),
                    size: size_of::<$type>(),
                }),*]
            };
        }
    )*};
}

pub(crate) use shared;

// SAFETY: a number has no padding, and any bytes are one.
unsafe impl Shared for u32 {
    const MEMBERS: &'static [Member] = &[];
}

// SAFETY: as above.
unsafe impl Shared for u64 {
    const MEMBERS: &'static [Member] = &[];
}

/// An enum that C and Rust share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enum {
    /// Its name in C.
    pub name: &'static str,
    /// Names in C, and numbers.
    pub values: &'static [(&'static str, u32)],
}

/// Declares an enum that C and Rust share.
macro_rules! shared_enum {
    ($($(#[$about:meta])* $name:ident as $c:literal { $($(#[$what:meta])* $value:ident as $text:literal = $number:literal,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $value = $number,)*
        }

        impl $name {
            /// For comparison with the C enum.
            pub const ENUM: $crate::bpf::shared::Enum = $crate::bpf::shared::Enum { name: $c, values: &[$(($text, $number)),*] };

            /// The variant with this number.
            pub fn of(number: u32) -> Option<$name> {
                match number {
                    $($number => Some($name::$value),)*
                    _ => None,
                }
            }
        }
    )*};
}

pub(crate) use shared_enum;

/// A BPF program for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the object.
    pub name: &'static str,
    /// Number of the probed function's arguments that it reads, starting with the first: a probe after the function's
    /// first instruction must find them unchanged.
    pub arguments: usize,
}
