//! Work on a thread of its own, for which this one waits: what it changes of itself, such as its network namespace, ends
//! with it.

use std::thread;

/// Does some work on another thread. It may not be done: if the system has no thread to spare.
pub fn aside(work: &mut (dyn FnMut() + Send)) {
    thread::scope(|scope| {
        drop(thread::Builder::new().name("netns".into()).spawn_scoped(scope, work).map(thread::ScopedJoinHandle::join));
    });
}
