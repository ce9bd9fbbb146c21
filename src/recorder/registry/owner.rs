//! An IOC as definitions need it.

use std::sync::Arc;

use iocrec_log::event::IocId;

use crate::ioc::IocProcess;

/// Whose things are defined.
#[derive(Clone, Copy)]
pub struct Owner<'a> {
    /// Its id.
    pub id: IocId,
    /// Its process, as it was last looked at.
    pub process: &'a Arc<IocProcess>,
}
