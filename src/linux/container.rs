//! The container that a process runs in, by the names of its control groups.
//!
//! Only shapes of names that container runtimes are known to make count; anything else is no container. The groups are named
//! as seen from the reader's own group: where that is in a namespace, paths begin with `..` and may lack their first parts.
//! Who makes a group chooses its name, so lengths and letters are checked, and hierarchies that disagree tell nothing.

use iocrec_log::event::{Container, ContainerRuntime};

use crate::linux::process;

/// Digits of an id.
const ID: usize = 64;
/// Longest host name (HOST_NAME_MAX), and longest name of a machine.
const MAX_NAME: usize = 64;

/// The container of a process, without the number of its IOC; `None` if it is in none that is known.
pub fn container(pid: u32) -> Option<Container> {
    let about = process::directory(pid);
    let mut found = of_groups(&process::text(about.join("cgroup")).ok()?)?;
    // not the live one: start-up scripts may set variables, too
    let environment = process::contents(about.join("environ")).unwrap_or_default();
    found.host_name = host_name(&environment).unwrap_or_default();
    Some(found)
}

/// By the content of /proc/PID/cgroup: lines of `number:controllers:path`.
fn of_groups(text: &str) -> Option<Container> {
    let mut paths = text.lines().filter_map(|line| of_path(line.splitn(3, ':').nth(2)?));
    let first = paths.next()?;
    paths.all(|other| other == first).then_some(first)
}

/// The innermost container of a path, and the pod around it.
fn of_path(path: &str) -> Option<Container> {
    let (mut pod, mut found) = ((String::new(), false), None);
    let (mut before, mut is_pod_before) = ("", false);
    // a kubelet that uses systemd with a containerd that doesn't: kubepods-podUID.slice:cri-containerd:ID
    for part in path.split(['/', ':']) {
        let part = part.strip_suffix(" (deleted)").unwrap_or(part);
        let of = pod_of(part, before);
        if let (None, Some((runtime, id))) = (&of, container_of(part, before, is_pod_before)) {
            let (pod, is_kubernetes) = pod.clone();
            found = Some(Container { ioc: 0, runtime, id, pod, is_kubernetes, host_name: String::new() });
        }
        is_pod_before = of.is_some();
        pod = of.unwrap_or(pod);
        before = part;
    }
    found
}

/// The pod that a part of a path names, and whether it is one of Kubernetes.
fn pod_of(part: &str, before: &str) -> Option<(String, bool)> {
    if let Some(slice) = part.strip_suffix(".slice") {
        if let Some((quality, uid)) = slice.rsplit_once("-pod") {
            let quality = quality.strip_prefix("kubelet-").unwrap_or(quality);
            let is_kubelets = matches!(quality, "kubepods" | "kubepods-burstable" | "kubepods-besteffort");
            // systemd reads a dash as a slash
            let uid = uid.replace('_', "-");
            return (is_kubelets && is_uid(&uid)).then_some((uid, true));
        }
        let id = slice.strip_prefix("machine-").or(slice.strip_prefix("user-"))?;
        return Some((hexadecimal(id.strip_prefix("libpod_pod_")?)?, false));
    }
    if before == "libpod_parent" {
        return Some((hexadecimal(part)?, false));
    }
    let uid = part.strip_prefix("pod").filter(|uid| is_uid(uid))?;
    Some((uid.to_owned(), true))
}

/// The container that a part of a path names.
fn container_of(part: &str, before: &str, is_pod_before: bool) -> Option<(ContainerRuntime, String)> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some((ContainerRuntime::Lxc, machine(name)?));
    }
    if matches!(before, "lxc" | "lxc.payload") {
        return Some((ContainerRuntime::Lxc, machine(part)?));
    }
    let scope = part.strip_suffix(".scope");
    if before == "machine.slice" {
        let service = part.strip_prefix("systemd-nspawn@").and_then(|name| name.strip_suffix(".service"));
        if let Some(name) = service.or(scope.and_then(|name| name.strip_prefix("machine-"))) {
            let name = machine(&name.replace("\\x2d", "-"))?;
            // libvirt has its machines there, too
            let is_libvirts = name.starts_with("qemu-") || name.starts_with("lxc-");
            return (!is_libvirts).then_some((ContainerRuntime::Nspawn, name));
        }
    }
    let name = scope.unwrap_or(part);
    let (prefix, id) = name.split_at_checked(name.len().checked_sub(ID)?)?;
    let runtime = match (prefix, scope.is_some()) {
        ("docker-", true) => ContainerRuntime::Docker,
        ("cri-containerd-", true) => ContainerRuntime::Containerd,
        ("crio-", _) => ContainerRuntime::CriO,
        ("libpod-" | "libpod-payload-", _) => ContainerRuntime::Podman,
        ("", false) if before == "docker" => ContainerRuntime::Docker,
        ("", false) if before == "cri-containerd" => ContainerRuntime::Containerd,
        ("", false) if is_pod_before => ContainerRuntime::Unknown,
        _ => return None,
    };
    Some((runtime, hexadecimal(id)?))
}

/// An id of a container or of podman's pod.
fn hexadecimal(text: &str) -> Option<String> {
    (text.len() == ID && is_hexadecimal(text)).then(|| text.to_owned())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|letter| matches!(letter, b'0'..=b'9' | b'a'..=b'f'))
}

/// The uid of a pod: a UUID, or for a pod by a file on the node 32 digits.
fn is_uid(text: &str) -> bool {
    let dashes = text.bytes().enumerate().filter(|(_, letter)| *letter == b'-').map(|(place, _)| place);
    let is_uuid = || text.len() == 36 && dashes.eq([8, 13, 18, 23]) && is_hexadecimal(&text.replace('-', ""));
    text.len() == 32 && is_hexadecimal(text) || is_uuid()
}

/// The name of a machine or host.
fn machine(name: &str) -> Option<String> {
    let is_part = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'-' | b'_');
    ((1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_part)).then(|| name.to_owned())
}

/// The host name in an environment.
fn host_name(environment: &[u8]) -> Option<String> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(b"HOSTNAME="))?;
    machine(std::str::from_utf8(value).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_testing::chance::{fuzz, mutate, Random};

    const ID: &str = "9c3e7f1a52d84b6f0e1d2c3b4a5968778695a4b3c2d1e0f9087162534455aa01";
    const OTHER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const UID: &str = "8d2f6f0e-5a3b-4c11-9e57-0b1d2c3e4f50";
    const STATIC: &str = "f3a1c05b7e9d4826a1b2c3d4e5f60718";

    /// Paths as runtimes make them, with what they say: runtime, id, pod, whether that is Kubernetes'.
    fn known() -> Vec<(String, ContainerRuntime, &'static str, &'static str, bool)> {
        use ContainerRuntime::*;
        let systemd = UID.replace('-', "_");
        vec![
            (format!("/docker/{ID}"), Docker, ID, "", false),
            (format!("/system.slice/docker-{ID}.scope"), Docker, ID, "", false),
            (format!("/system.slice/docker-{ID}.scope/init.scope"), Docker, ID, "", false),
            (format!("/docker/{OTHER}/docker/{ID}"), Docker, ID, "", false),
            (
                format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{systemd}.slice/cri-containerd-{ID}.scope"),
                Containerd, ID, UID, true,
            ),
            (format!("/kubepods.slice/kubepods-pod{systemd}.slice/cri-containerd-{ID}.scope"), Containerd, ID, UID, true),
            (
                format!("/system.slice/containerd.service/kubepods-besteffort-pod{systemd}.slice:cri-containerd:{ID}"),
                Containerd, ID, UID, true,
            ),
            (
                format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{systemd}.slice/crio-{ID}.scope/container"),
                CriO, ID, UID, true,
            ),
            (format!("/kubepods/burstable/pod{UID}/crio-{ID}"), CriO, ID, UID, true),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), Unknown, ID, UID, true),
            (format!("/kubepods/besteffort/pod{STATIC}/{ID}"), Unknown, ID, STATIC, true),
            (format!("/kubepods/pod{UID}/{ID}"), Unknown, ID, UID, true),
            // kind: nodes are containers of docker
            (
                format!("/system.slice/docker-{OTHER}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{systemd}.slice/cri-containerd-{ID}.scope"),
                Containerd, ID, UID, true,
            ),
            (format!("/docker/{OTHER}/kubelet/kubepods/burstable/pod{UID}/{ID}"), Unknown, ID, UID, true),
            // as a recorder that is a pod itself sees them
            (format!("/../../kubepods-besteffort-pod{systemd}.slice/cri-containerd-{ID}.scope"), Containerd, ID, UID, true),
            (format!("/../../pod{UID}/{ID}"), Unknown, ID, UID, true),
            (format!("/../cri-containerd-{ID}.scope"), Containerd, ID, "", false),
            (format!("/machine.slice/libpod-{ID}.scope/container"), Podman, ID, "", false),
            (
                format!("/machine.slice/machine-libpod_pod_{OTHER}.slice/libpod-{ID}.scope/container"),
                Podman, ID, OTHER, false,
            ),
            (
                format!("/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_{OTHER}.slice/libpod-{ID}.scope"),
                Podman, ID, OTHER, false,
            ),
            (format!("/libpod_parent/libpod-{ID}"), Podman, ID, "", false),
            (format!("/libpod_parent/{OTHER}/libpod-{ID}"), Podman, ID, OTHER, false),
            (format!("/system.slice/ioc.service/libpod-payload-{ID}"), Podman, ID, "", false),
            ("/machine.slice/machine-ioc\\x2dvac.scope/payload/system.slice/ioc.service".into(), Nspawn, "ioc-vac", "", false),
            ("/machine.slice/systemd-nspawn@vac.service/payload".into(), Nspawn, "vac", "", false),
            ("/lxc/vac-1".into(), Lxc, "vac-1", "", false),
            ("/lxc.payload.vac-1/system.slice/ioc.service".into(), Lxc, "vac-1", "", false),
            (format!("/system.slice/docker-{ID}.scope (deleted)"), Docker, ID, "", false),
        ]
    }

    #[test]
    fn groups_of_runtimes() {
        for (path, runtime, id, pod, is_kubernetes) in known() {
            let found = of_groups(&format!("0::{path}\n")).unwrap_or_else(|| panic!("{path}"));
            let said = (found.runtime, found.id.as_str(), found.pod.as_str(), found.is_kubernetes);
            assert_eq!(said, (runtime, id, pod, is_kubernetes), "{path}");
        }
    }

    #[test]
    fn other_groups() {
        let (short, upper) = (&ID[1..], ID.to_uppercase());
        for path in [
            "/",
            "",
            "/init.scope",
            "/system.slice/ioc.service",
            "/user.slice/user-1000.slice/session-3.scope",
            "/system.slice/docker.service",
            "/docker",
            "/lxc.monitor.vac",
            "/lxc/",
            "/machine.slice/machine-qemu\\x2d3\\x2dwin.scope/libvirt/emulator",
            "/machine.slice/machine-lxc\\x2d3\\x2dvac.scope",
            "/lxc/\u{fc}",
            &format!("/lxc/{}", "a".repeat(65)),
            &format!("/docker/{short}"),
            &format!("/docker/{upper}"),
            &format!("/docker/{ID}0"),
            &format!("/system.slice/docker-{short}.scope"),
            &format!("/machine.slice/libpod-conmon-{ID}.scope"),
            &format!("/system.slice/crio-conmon-{ID}.scope"),
            &format!("/{ID}"),
            &format!("/ecs/{ID}"),
            &format!("/kubepods/burstable/pod{short}/{ID}"),
            &format!("/kubepods/burstable/pod{UID}"),
            &format!("/kubepods/burstable/pod{UID}/x/{ID}"),
            &format!("/a-pod{}.slice/{ID}", UID.replace('-', "_")),
        ] {
            assert_eq!(of_groups(&format!("0::{path}\n")), None, "{path}");
        }
        assert_eq!(of_groups(""), None);
        assert_eq!(of_groups(ID), None);
    }

    #[test]
    fn hierarchies_of_the_first_kind() {
        let lines = |first: &str, second: &str| {
            format!("12:memory:/docker/{first}\n3:cpu,cpuacct:/docker/{second}\n1:name=systemd:/\n0::/\n")
        };
        assert_eq!(of_groups(&lines(ID, ID)).unwrap().id, ID);
        assert_eq!(of_groups(&lines(ID, OTHER)), None, "they disagree");
    }

    #[test]
    fn host_names() {
        let of = |environment: &[u8]| host_name(environment);
        assert_eq!(of(b"PATH=/bin\0HOSTNAME=bl01t-ea-01-0\0X=1\0").as_deref(), Some("bl01t-ea-01-0"));
        assert_eq!(of(b"HOSTNAME=\0"), None);
        assert_eq!(of(b"XHOSTNAME=a\0"), None);
        assert_eq!(of(b"HOSTNAME=a b\0"), None);
        assert_eq!(of(b"HOSTNAME=\xff\0"), None);
        assert_eq!(of(&[b"HOSTNAME=".as_slice(), &[b'a'; 65]].concat()), None);
    }

    #[test]
    fn this_process() {
        // whatever it is in: no panic, and the same twice
        assert_eq!(container(std::process::id()), container(std::process::id()));
        assert_eq!(container(u32::MAX), None);
    }

    /// Whatever the groups are called, what is told has the shape of an id or a name.
    #[test]
    fn groups_that_were_changed() {
        let seeds = known();
        fuzz(20_000, |random: &mut Random| {
            let mut bytes = format!("0::{}\n", seeds[random.below(seeds.len())].0).into_bytes();
            mutate(random, &mut bytes);
            let Some(found) = of_groups(&String::from_utf8_lossy(&bytes)) else { return };
            let Container { runtime, id, pod, is_kubernetes, .. } = found;
            match runtime {
                ContainerRuntime::Nspawn | ContainerRuntime::Lxc => assert_eq!(machine(&id), Some(id)),
                _ => assert!(id.len() == 64 && is_hexadecimal(&id)),
            }
            assert!(if is_kubernetes { is_uid(&pod) } else { pod.is_empty() || hexadecimal(&pod).is_some() });
        });
    }
}
