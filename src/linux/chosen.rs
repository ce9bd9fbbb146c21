//! The processes that a person chose: by their users, and by their pods or containers.

use std::fmt;

use iocrec_log::event::Container;
use iocrec_log::glob::Glob;
use nix::sys::utsname::uname;

use crate::linux::container::container;
use crate::linux::user::{self, Users};

/// See the module; all processes if nothing is named.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Their users.
    pub users: Users,
    /// Patterns of pods and containers.
    pods: Vec<String>,
    /// This machine's name: a pod in the node's network has it as HOSTNAME.
    node: String,
}

/// Why a process is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotChosen {
    /// `--user` leaves out its user, named here; empty if it has ended.
    OtherUser(String),
    /// It is in no pod and no container that `--pod` names.
    OtherPod,
}

impl fmt::Display for NotChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotChosen::OtherUser(user) => write!(f, "belongs to user {user}, whom --user leaves out"),
            NotChosen::OtherPod => f.write_str("is in no pod or container that --pod names"),
        }
    }
}

impl Chosen {
    /// Processes of these users, in pods or containers that match one of the patterns (all, if there is none).
    pub fn new(users: Users, pods: Vec<String>) -> Chosen {
        let node = uname().map(|names| names.nodename().to_string_lossy().into_owned());
        Chosen { users, pods, node: node.unwrap_or_default() }
    }

    /// Whether nothing was named.
    pub fn are_all(&self) -> bool {
        self.users.are_all() && self.pods.is_empty()
    }

    /// Whether a process is among them. One that has ended is not, if anything was named.
    pub fn have(&self, pid: u32) -> bool {
        self.users.have(pid) && self.is_in_container(pid)
    }

    /// Why a process is not among them.
    pub fn why_not(&self, pid: u32) -> Option<NotChosen> {
        if !self.users.have(pid) {
            return Some(NotChosen::OtherUser(user::user(pid)));
        }
        (!self.is_in_container(pid)).then_some(NotChosen::OtherPod)
    }

    /// Whether the container of a process is one of those; `None`: it is in none that is known.
    pub fn have_container(&self, container: Option<&Container>) -> bool {
        let is_called = |container: &Container, pattern: &String| {
            let glob = Glob::new(pattern);
            container.is_called(pattern, |name| glob.matches(name), Some(&self.node))
        };
        let matches = |container| self.pods.iter().any(|pattern| is_called(container, pattern));
        self.pods.is_empty() || container.is_some_and(matches)
    }

    /// Asks only where it matters: the answer takes reads of files.
    fn is_in_container(&self, pid: u32) -> bool {
        self.pods.is_empty() || self.have_container(container(pid).as_ref())
    }
}
