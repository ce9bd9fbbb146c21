//! IOCs in control groups that are called like those of pods: the log says in which each is, and `--pod` tells them apart.
//!
//! The groups are real, and made for the test; no container runtime takes part. What the log must say is what they were
//! called.

use crate::rig::{iocreplay, json_lines, not_run, python, rig_file, wait_until, Ioc, Needs, Rig};
use serde_json::{json, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PORT: u16 = 5074;
const DOUBLE: u16 = 6;

/// Control groups, removed at the end.
struct Groups {
    root: PathBuf,
    made: Vec<PathBuf>,
}

impl Groups {
    /// The hierarchy of the second kind; `None` if the test cannot make groups there, or is in a container itself.
    fn find(test: &str) -> Option<Groups> {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let second = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
        let Some(mount) = mounts.lines().find(second).and_then(|line| line.split(' ').nth(1)) else {
            not_run(test, Needs::Kernel("control groups of version 2".into()));
            return None;
        };
        let own = fs::read_to_string("/proc/self/cgroup").expect("our groups");
        let is_id = |part: &str| part.len() >= 64 && part.is_ascii();
        if own.split(['/', '\n']).any(is_id) {
            not_run(test, Needs::Kernel("control groups outside of a container".into()));
            return None;
        }
        let mut groups = Groups { root: mount.into(), made: Vec::new() };
        let tried = format!("iocrec-test-{}", std::process::id());
        if let Err(error) = fs::create_dir(groups.root.join(&tried)) {
            not_run(test, Needs::Kernel(format!("control groups that can be made: {error}")));
            return None;
        }
        groups.made.push(groups.root.join(tried));
        Some(groups)
    }

    /// Makes a group with those around it.
    fn make(&mut self, path: &str) -> PathBuf {
        let mut group = self.root.clone();
        for part in path.split('/') {
            group.push(part);
            match fs::create_dir(&group) {
                Ok(()) => self.made.push(group.clone()),
                Err(error) => assert!(group.is_dir(), "{}: {error}", group.display()),
            }
        }
        group
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(10);
        for group in self.made.iter().rev() {
            // it is empty only when its last process is gone for good
            while fs::remove_dir(group).is_err() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// 64 digits, of this test alone.
fn digits(number: u32) -> String {
    format!("{number:08x}{:08x}", std::process::id()).repeat(4)
}

fn uid(number: u32) -> String {
    format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id())
}

/// Starts an IOC in a group and a network of its own, with a HOSTNAME.
fn ioc_in(rig: &Rig, group: &Path, name: &str, label: &str, host_name: Option<&str>) -> Ioc {
    let (apart, script) = (python("private_net.py"), python("ioc.py"));
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
    command.arg(apart.get_program()).args(apart.get_args());
    command.arg(script.get_program()).args(script.get_args());
    command.arg(name).arg(PORT.to_string()).arg(rig_file("statements.db"));
    for (key, value) in script.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    match host_name {
        Some(host_name) => command.env("HOSTNAME", host_name),
        None => command.env_remove("HOSTNAME"),
    };
    let ioc = rig.ioc_by(label, &mut command);
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", ioc.pid())).expect("its groups");
    let end = group.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(groups.lines().any(|line| line.ends_with(end)), "it is in its group: {groups}");
    ioc
}

fn lines(rig: &Rig, words: &[&str]) -> Vec<Value> {
    let out = Command::new(iocreplay()).args(words).args(["--format", "jsonl"]).arg(rig.log()).output();
    json_lines(&out.expect("iocreplay runs").stdout)
}

/// Puts values to SAY:AI of each IOC, and waits until the log has them.
fn put(rig: &Rig, iocs: &[(&Ioc, f64)]) {
    for (ioc, value) in iocs {
        let mut client = rig.client_beside(ioc.pid(), "libca", PORT, &[]);
        let address = client.connect("SAY:AI");
        wait_until("its puts are seen", || {
            client.put("SAY:AI", DOUBLE, json!(value), true);
            std::thread::sleep(Duration::from_millis(300));
            let seen = |put: &Value| put["client"] == *address && put["source"] == "both";
            rig.puts(&["--pv", "SAY:AI"]).iter().any(seen)
        });
    }
}

/// The values that were put to the IOCs that are selected, without repetitions.
fn values(rig: &Rig, more: &[&str]) -> Vec<f64> {
    let puts = rig.puts(&[&["--pv", "SAY:AI"], more].concat());
    let mut values: Vec<f64> = puts.iter().filter_map(|put| put["requested"].as_f64()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

#[test]
fn iocs_in_pods_are_told_apart() {
    let test = "iocs_in_pods_are_told_apart";
    let Some(rig) = Rig::new("pods") else { return };
    // before the IOCs: they are to be gone when the groups are removed
    let Some(mut groups) = Groups::find(test) else { return };
    let systemd = format!(
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{}.scope",
        uid(1).replace('-', "_"),
        digits(1)
    );
    let kubelet = format!("kubepods/besteffort/pod{}/{}", uid(2), digits(2));
    let podman = format!("machine.slice/libpod-{}.scope/container", digits(3));
    let plain = format!("iocrec-test-{}/ioc.service", std::process::id());
    let [systemd, kubelet, podman, plain] = [systemd, kubelet, podman, plain].map(|path| groups.make(&path));
    let node = fs::read_to_string("/proc/sys/kernel/hostname").expect("our name");
    let first = ioc_in(&rig, &systemd, "vac", "first", Some("vac-first-0"));
    let second = ioc_in(&rig, &kubelet, "vac", "second", Some(node.trim()));
    let mut third = ioc_in(&rig, &plain, "mag", "third", Some("mag-third-0"));
    let fourth = ioc_in(&rig, &podman, "llrf", "fourth", None);
    let iocs = [&first, &second, &third, &fourth];
    let mut arguments = Vec::new();
    iocs.iter().for_each(|ioc| arguments.extend(["--pid".to_owned(), ioc.pid_argument()]));
    let mut recorder = rig.record(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    put(&rig, &[(&first, 1.5), (&second, 2.5), (&third, 3.5), (&fourth, 4.5)]);

    let container = |id: u32, runtime: Value, pod_uid: Value, pod_name: Value, host_name: Value| {
        json!({
            "id": digits(id), "runtime": runtime, "pod_uid": pod_uid, "pod_name": pod_name, "podman_pod": null,
            "host_name": host_name,
        })
    };
    let expected = [
        (
            &first,
            container(1, json!("containerd"), json!(uid(1)), json!("vac-first-0"), json!("vac-first-0")),
        ),
        // its runtime can't be seen, and its HOSTNAME is the node's
        (&second, container(2, Value::Null, json!(uid(2)), Value::Null, json!(node.trim()))),
        (&third, Value::Null),
        (&fourth, container(3, json!("podman"), Value::Null, Value::Null, Value::Null)),
    ];
    let runs = rig.runs();
    let described = lines(&rig, &["iocs"]);
    for (ioc, container) in &expected {
        let of_info =
            runs[0]["iocs"].as_array().into_iter().flatten().find(|found| found["pid"] == ioc.pid());
        let of_iocs = described.iter().find(|found| found["pid"] == ioc.pid());
        for found in [of_info, of_iocs] {
            assert_eq!(found.map(|found| &found["container"]), Some(container), "{runs:?}");
        }
    }
    for (pod, chosen) in [
        (uid(1), &[1.5][..]),
        ("vac-first-*".into(), &[1.5]),
        (digits(2), &[2.5]),
        (uid(2), &[2.5]),
        (digits(3)[..12].into(), &[4.5]),
        ("*".into(), &[1.5, 2.5, 4.5]),
        // of an IOC in no container HOSTNAME says nothing, nor does the node's of a pod
        ("mag-third-0".into(), &[]),
        (node.trim().into(), &[]),
    ] {
        assert_eq!(values(&rig, &["--pod", &pod]), chosen, "{pod}");
    }
    assert_eq!(values(&rig, &["--ioc", "vac"]), [1.5, 2.5], "both are called so");
    assert_eq!(values(&rig, &["--ioc", "mag"]), [3.5]);
    assert_eq!(values(&rig, &["--ioc", "mag", "--pod", "*"]), [] as [f64; 0]);
    let traces =
        String::from_utf8_lossy(&rig.replay("traces", &["--format", "otlp", "--pod", &uid(1)]).stdout)
            .into_owned();
    for (key, value) in
        [("container.id", digits(1)), ("k8s.pod.uid", uid(1)), ("k8s.pod.name", "vac-first-0".into())]
    {
        let attribute = format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#);
        assert!(traces.contains(&attribute), "{key}: {traces}");
    }

    // started anew, in another pod: the log has two processes of the name, one of them in no container
    third.kill();
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let crio = format!(
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{}.slice/crio-{}.scope",
        uid(5).replace('-', "_"),
        digits(5)
    );
    let crio = groups.make(&crio);
    let again = ioc_in(&rig, &crio, "mag", "again", Some("mag-fifth-0"));
    let pid = again.pid_argument();
    // by its pod, so that the others are left out
    let refused = rig.agent(&["record", "--dir", &rig.path("other"), "--pid", &pid, "--pod", &uid(1)]).wait();
    assert_eq!(refused.code(), Some(1), "it is in another pod");
    let mut recorder = rig.record(&["--pod", &digits(5)[..12]]);
    put(&rig, &[(&again, 5.5)]);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let runs = rig.runs();
    let pids: Vec<&Value> = runs[1]["iocs"].as_array().into_iter().flatten().map(|ioc| &ioc["pid"]).collect();
    assert_eq!(pids, [&json!(again.pid())]);
    assert_eq!(values(&rig, &["--pod", "mag-fifth-0"]), [5.5]);
    assert_eq!(values(&rig, &["--pod", &uid(1)]), [1.5], "of the first run");
    assert_eq!(values(&rig, &["--ioc", "mag"]), [3.5, 5.5]);
    let found = lines(&rig, &["iocs", "--pod", &uid(5)]);
    assert_eq!((found.len(), &found[0]["container"]["runtime"]), (1, &json!("cri-o")), "{found:?}");
}
