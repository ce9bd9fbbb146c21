//! The ids of a log's definitions. They count from 1, and a run never reuses one.

use iocrec_log::event::{CallSiteId, FieldId, IocId, MenuId, RecordId, ScanListId, ThreadId};

/// The last ids given.
#[derive(Debug, Default)]
pub struct Ids {
    ioc: IocId,
    thread: ThreadId,
    record: RecordId,
    field: FieldId,
    menu: MenuId,
    scan_list: ScanListId,
    call_site: CallSiteId,
    client_channel: u32,
    watched_thread: u32,
    stuck: u32,
    file: u32,
}

fn next(last: &mut u32) -> u32 {
    *last += 1;
    *last
}

impl Ids {
    /// For an IOC.
    pub fn ioc(&mut self) -> IocId {
        next(&mut self.ioc)
    }

    /// For a thread.
    pub fn thread(&mut self) -> ThreadId {
        next(&mut self.thread)
    }

    /// For a record.
    pub fn record(&mut self) -> RecordId {
        next(&mut self.record)
    }

    /// For a field.
    pub fn field(&mut self) -> FieldId {
        next(&mut self.field)
    }

    /// For a menu.
    pub fn menu(&mut self) -> MenuId {
        next(&mut self.menu)
    }

    /// For a scan list.
    pub fn scan_list(&mut self) -> ScanListId {
        next(&mut self.scan_list)
    }

    /// For a call site.
    pub fn call_site(&mut self) -> CallSiteId {
        next(&mut self.call_site)
    }

    /// For a channel to which an IOC puts as a client.
    pub fn client_channel(&mut self) -> u32 {
        next(&mut self.client_channel)
    }

    /// For a thread in what an IOC uses.
    pub fn watched_thread(&mut self) -> u32 {
        next(&mut self.watched_thread)
    }

    /// For a thread that stands still.
    pub fn stuck(&mut self) -> u32 {
        next(&mut self.stuck)
    }

    /// For an open of a file.
    pub fn file(&mut self) -> u32 {
        next(&mut self.file)
    }
}
