//! The containers of IOCs: what the kernel's control groups and the IOC's first environment say.
//!
//! Only names of groups whose shape container runtimes have are facts; there is none for an IOC in no container, nor for one
//! in a container of an unknown kind. A group has the name that its maker chose: a user to whom a part of the groups was
//! handed over, as systemd does, can make one that is called like a container's.

use crate::event::ids::*;
use crate::event::life::{allocated, Ended, OwnedBy, Whole};
use serde::{Deserialize, Serialize};

/// What runs a container, by the name of its control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerRuntime {
    /// The name does not tell: the kubelet names groups alike for all runtimes if it does not use systemd.
    Unknown,
    /// Docker.
    Docker,
    /// containerd.
    Containerd,
    /// CRI-O.
    CriO,
    /// podman.
    Podman,
    /// systemd-nspawn.
    Nspawn,
    /// LXC, as of LXD and Incus.
    Lxc,
}

impl ContainerRuntime {
    /// All.
    pub const ALL: [ContainerRuntime; 7] = [
        ContainerRuntime::Unknown,
        ContainerRuntime::Docker,
        ContainerRuntime::Containerd,
        ContainerRuntime::CriO,
        ContainerRuntime::Podman,
        ContainerRuntime::Nspawn,
        ContainerRuntime::Lxc,
    ];

    /// Its name in JSON, and for people; `None` where unknown.
    pub fn name(self) -> Option<&'static str> {
        match self {
            ContainerRuntime::Unknown => None,
            ContainerRuntime::Docker => Some("docker"),
            ContainerRuntime::Containerd => Some("containerd"),
            ContainerRuntime::CriO => Some("cri-o"),
            ContainerRuntime::Podman => Some("podman"),
            ContainerRuntime::Nspawn => Some("systemd-nspawn"),
            ContainerRuntime::Lxc => Some("lxc"),
        }
    }
}

/// The container that an IOC runs in, as of when the recorder found the IOC. Of containers within containers, the innermost
/// that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// The IOC.
    pub ioc: IocId,
    /// What runs the container.
    pub runtime: ContainerRuntime,
    /// Its id: 64 hexadecimal digits; with systemd-nspawn and LXC its name.
    pub id: String,
    /// The pod that the container is in: in Kubernetes its uid, in podman its id of 64 hexadecimal digits. Empty if it is
    /// in none, or if the group does not tell.
    pub pod: String,
    /// Whether the pod is one of Kubernetes.
    pub is_kubernetes: bool,
    /// The variable HOSTNAME of the environment with which the program was started; empty if it had none. Runtimes set it to
    /// the container's host name. In Kubernetes that is the pod's name, unless the pod sets another one or uses the node's
    /// network: then it is the node's.
    pub host_name: String,
}

/// Least length of the beginning of a container's id that stands for it: as many digits as runtimes show.
const SHORT_ID: usize = 12;

impl Container {
    /// Whether a pattern, or what `matches` tells of it, is a name of this container: the uid or id of its pod, its host name,
    /// which in Kubernetes is the pod's name, its own id, or at least twelve first digits of that. `host`: the machine,
    /// if known. It is here because it must mean the same to the recorder and the reader.
    pub fn is_called(&self, pattern: &str, matches: impl Fn(&str) -> bool, host: Option<&str>) -> bool {
        pattern.len() >= SHORT_ID && self.id.starts_with(pattern)
            || !self.pod.is_empty() && matches(&self.pod)
            || matches(&self.id)
            || self.own_host_name(host).is_some_and(matches)
    }

    /// HOSTNAME, if that is not the machine's, as that of a pod in the node's network is; `None` if that is not known.
    pub fn own_host_name(&self, host: Option<&str>) -> Option<&str> {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let host = host.filter(|host| !host.is_empty())?;
        let name = Some(self.host_name.as_str()).filter(|name| !name.is_empty())?;
        (short(name) != short(host)).then_some(name)
    }
}

impl Whole for Container {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.ioc
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Ioc(ioc) => Some(ioc),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        [&self.id, &self.pod, &self.host_name].iter().map(|text| allocated(text.len())).sum()
    }
}
