//! Containers and pods of IOCs: what they are called, and the IOCs that `--pod` selects.
//!
//! A container or pod has no other name in a log than what its control groups and its environment said. The IOCs are found
//! once, when logs are opened, and known by host and shown name from then on; where processes of one name are in different
//! pods, each is shown with its process id (see [`crate::reading::namesakes`]), so that the names tell them apart.

use crate::pattern::Pattern;
use iocrec_log::event::Container;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The JSON keys of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerKeys {
    /// Its id, or with systemd-nspawn and LXC its name.
    pub id: String,
    /// What runs it, if that is known.
    pub runtime: Option<&'static str>,
    /// The uid of its pod in Kubernetes.
    pub pod_uid: Option<String>,
    /// The name of that, by HOSTNAME.
    pub pod_name: Option<String>,
    /// The id of its pod in podman.
    pub podman_pod: Option<String>,
    /// HOSTNAME.
    pub host_name: Option<String>,
}

impl ContainerKeys {
    /// Those of a container. `host`: the recorded host, if known.
    pub fn of(container: &Container, host: Option<&str>) -> ContainerKeys {
        let of_pod = |is_meant: bool| text(&container.pod).filter(|_| is_meant);
        ContainerKeys {
            id: container.id.clone(),
            runtime: container.runtime.name(),
            pod_uid: of_pod(container.is_kubernetes),
            pod_name: pod_name(container, host).map(str::to_owned),
            podman_pod: of_pod(!container.is_kubernetes),
            host_name: text(&container.host_name),
        }
    }

    /// The container as text, and its pod.
    pub fn lines(&self) -> (String, Option<String>) {
        let runtime = self.runtime.map(|runtime| format!("  {runtime}")).unwrap_or_default();
        let pod = match (&self.pod_uid, &self.pod_name) {
            (Some(uid), Some(name)) => Some(format!("{uid}  {name} (by HOSTNAME)")),
            (Some(uid), None) => Some(uid.clone()),
            (None, _) => self.podman_pod.as_ref().map(|id| format!("{id}  podman")),
        };
        let host = self.host_name.as_ref().filter(|_| self.pod_name.is_none());
        let host = host.map(|name| format!("  HOSTNAME {name}")).unwrap_or_default();
        (format!("{}{runtime}{host}", self.id), pod)
    }
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The name of the pod of Kubernetes that a container is in: its HOSTNAME, but for that of the node, which pods in the
/// node's network have, and those whose node is not known.
pub fn pod_name<'a>(container: &'a Container, host: Option<&str>) -> Option<&'a str> {
    let is_in_pod = container.is_kubernetes && !container.pod.is_empty();
    is_in_pod.then(|| container.own_host_name(host)).flatten()
}

/// Whether a pattern selects a container.
pub fn selects(pattern: &Pattern, container: &Container, host: Option<&str>) -> bool {
    container.is_called(pattern.text(), |name| pattern.matches(name), host)
}

/// The IOCs whose pod or container matches a pattern.
#[derive(Clone)]
pub struct Pods {
    pattern: Pattern,
    /// Shown names by host.
    places: Arc<HashMap<String, HashSet<String>>>,
}

impl Pods {
    /// These IOCs.
    pub(crate) fn new(pattern: Pattern, places: HashMap<String, HashSet<String>>) -> Pods {
        Pods { pattern, places: Arc::new(places) }
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether an IOC, as it is shown, is one of them.
    pub fn have(&self, host: &str, ioc: &str) -> bool {
        self.places.get(host).is_some_and(|iocs| iocs.contains(ioc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::ContainerRuntime;

    fn container() -> Container {
        Container {
            ioc: 1,
            runtime: ContainerRuntime::Containerd,
            id: "4f3c".repeat(16),
            pod: "8d2f6f0e-5a3b-4c11-9e57-0b1d2c3e4f50".into(),
            is_kubernetes: true,
            host_name: "bl01t-ea-01-0".into(),
        }
    }

    #[test]
    fn what_selects_a_container() {
        let of = |pattern: &str| selects(&Pattern::from(pattern), &container(), Some("node1"));
        for pattern in ["*", "8d2f6f0e-*", "bl01t-ea-01-0", "bl01t-*", "4f3c4f3c4f3c", "4f3c*", "?f3c*"] {
            assert!(of(pattern), "{pattern}");
        }
        for pattern in ["", "4f3c", "bl01t", "node1", "containerd", "4f3c4f3c4f3d", "8d2f6f0e"] {
            assert!(!of(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_pod_in_the_nodes_network_has_no_name() {
        let on = |host: &'static str| pod_name(&container(), Some(host)).map(str::to_owned);
        assert_eq!(on("node1").as_deref(), Some("bl01t-ea-01-0"));
        assert_eq!(on("BL01T-ea-01-0.site"), None);
        assert_eq!(pod_name(&container(), None), None, "it may be the node's");
        let docker = Container { is_kubernetes: false, pod: String::new(), ..container() };
        assert_eq!(pod_name(&docker, Some("node1")), None);
        let keys = ContainerKeys::of(&docker, Some("node1"));
        assert_eq!(
            (keys.pod_uid, keys.podman_pod, keys.host_name.as_deref()),
            (None, None, Some("bl01t-ea-01-0"))
        );
    }
}
