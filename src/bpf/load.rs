//! Loads an object of BPF programs into the kernel.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::ptr::NonNull;

use iocrec_log::event::Tier;
use libbpf_rs::{libbpf_sys, AsRawLibbpf, Link, Object, OpenObject};

use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::{Failure, Step};
use crate::bpf::objects::{self, NoObject};
use crate::bpf::refusal::Refusal;
use crate::bpf::{libbpf, user_reads};
use crate::linux::{machine, version};

/// Reason why an object is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// This binary has no object for this kernel.
    NoObject(NoObject),
    /// The kernel refuses it, or something that it needs.
    Refused(Refusal),
}

impl Display for LoadError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NoObject(why) => why.fmt(f),
            LoadError::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// Loads the object compiled from `bpf/NAME.bpf.c` for this kernel and the given tier. `prepare` may change the sizes
/// of its maps before they are made.
///
/// # Errors
/// There is no such object, or the kernel refuses it.
pub fn load(
    name: &str,
    tier: Tier,
    prepare: impl FnOnce(&mut OpenObject) -> io::Result<()>,
) -> Result<Object, LoadError> {
    let unpacked = objects::find(name, &machine::name(), tier).map_err(LoadError::NoObject)?;
    user_reads::prepare();
    let loaded = libbpf::listen(|| {
        let mut object = open(unpacked.object())?;
        prepare(&mut object)?;
        if let Some(code) = version::vdso_code() {
            // SAFETY: the object is open and not loaded; the call only notes the number.
            unsafe { libbpf_sys::bpf_object__set_kversion(object.as_libbpf_object().as_ptr(), code) };
        }
        // SAFETY: the object is open and not loaded.
        match unsafe { libbpf_sys::bpf_object__load(object.as_libbpf_object().as_ptr()) } {
            // SAFETY: it is loaded now, and nobody else has it.
            0 => Ok(unsafe { Object::from_ptr(object.take_ptr()) }),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    });
    loaded.map_err(|failure| {
        let step = if libbpf::was_at_programs() { Step::Program } else { Step::Maps(tier) };
        LoadError::Refused(diagnose(step, failure))
    })
}

/// Opens an object; libbpf copies the data that it needs.
fn open(bytes: &[u8]) -> io::Result<OpenObject> {
    // SAFETY: pointer and length are those of one slice; without options the call takes the defaults.
    let object = unsafe {
        libbpf_sys::bpf_object__open_mem(bytes.as_ptr().cast(), bytes.len() as _, std::ptr::null())
    };
    let object = NonNull::new(object).ok_or_else(libbpf::last_error)?;
    // SAFETY: libbpf has just opened it, and nobody else has it.
    Ok(unsafe { OpenObject::from_ptr(object) })
}

/// Attaches a program of a loaded object where its section says.
///
/// # Errors
/// It has no such program, or the kernel refuses.
pub fn attach(object: &Object, name: &str) -> Result<Link, Failure> {
    let program = object.progs().find(|program| program.name() == name);
    let program = program.ok_or_else(|| Failure::from(io::Error::from_raw_os_error(libc::ENOENT)))?;
    libbpf::listen(|| {
        // SAFETY: the program belongs to the object, which is loaded; the call reads it and changes nothing in it.
        let link = unsafe { libbpf_sys::bpf_program__attach(program.as_libbpf_object().as_ptr()) };
        let link = NonNull::new(link).ok_or_else(libbpf::last_error)?;
        // SAFETY: libbpf has just made it, and nobody else has it.
        Ok(unsafe { Link::from_ptr(link) })
    })
}
