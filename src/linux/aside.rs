//! Threads. What a thread changes of itself, such as its network namespace, ends with it.

use std::io;
use std::thread::{self, JoinHandle};

/// Starts a thread. The work is boxed since each kind of work would bring its own copy of a kilobyte of code to start it.
///
/// # Errors
/// The system has no thread to spare.
pub fn start(name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(work)
}

/// Does some work on another thread, and waits for it. It may not be done: if the system has no thread to spare.
pub fn aside(work: &mut (dyn FnMut() + Send)) {
    thread::scope(|scope| {
        drop(
            thread::Builder::new()
                .name("netns".into())
                .spawn_scoped(scope, work)
                .map(thread::ScopedJoinHandle::join),
        );
    });
}
