//! An IOC as definitions need it.

use std::sync::Arc;

use iocrec_log::event::IocId;

use crate::ioc::IocProcess;

/// The IOC whose things are defined.
#[derive(Clone, Copy)]
pub struct Owner<'a> {
    /// Its id.
    pub id: IocId,
    /// Its process, as last inspected.
    pub process: &'a Arc<IocProcess>,
}
