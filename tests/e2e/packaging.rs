//! The Debian package, the unit and the scripts that run iocrec as a service.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::rig::{iocreplay, not_run, run, wait_until, Needs, Rig, IOCREC};

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).to_str().expect("a UTF-8 path").to_string()
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Packages of the programs under test have the expected files, are installed one without the other, and run.
#[test]
fn the_debian_packages_install_and_run() {
    let Some(rig) = Rig::new("deb") else { return };
    let dist = rig.path("dist");
    fs::create_dir(&dist).expect("a directory");
    let version = env!("CARGO_PKG_VERSION");
    for program in [Path::new(IOCREC), iocreplay()] {
        let name = program.file_name().expect("a name").to_string_lossy();
        let copy = format!("{dist}/{name}-{version}-x86_64-unknown-linux-musl");
        // without debug data, which takes minutes to pack
        done(Command::new("strip").arg("-o").arg(copy).arg(program));
    }
    done(Command::new(repository("packaging/deb")).args(["amd64", &dist]));
    let package = |name: &str| format!("{dist}/{name}_{version}_amd64.deb");
    let of_both = |name: &str| {
        [
            format!("-rwxr-xr-x ./usr/bin/{name}"),
            format!("-rw-r--r-- ./usr/share/doc/{name}/copyright"),
            format!("-rw-r--r-- ./usr/share/man/man1/{name}.1.gz"),
            format!("-rw-r--r-- ./usr/share/bash-completion/completions/{name}"),
            format!("-rw-r--r-- ./usr/share/zsh/vendor-completions/_{name}"),
            format!("-rw-r--r-- ./usr/share/fish/vendor_completions.d/{name}.fish"),
        ]
    };
    let of_recorder = [
        "-rw-r--r-- ./usr/lib/systemd/system/iocrec.service",
        "-rwxr-xr-x ./etc/init.d/iocrec",
        "-rw-r--r-- ./etc/default/iocrec",
        "-rw-r--r-- ./etc/logrotate.d/iocrec",
        "-rw-r--r-- ./usr/share/doc/iocrec/operating.md",
    ];
    let of_reader = [
        "-rw-r--r-- ./usr/share/doc/iocreplay/operating.md",
        "-rw-r--r-- ./usr/share/doc/iocreplay/internals/chains.md",
    ];
    let mut all = BTreeSet::new();
    for (name, own) in [("iocrec", &of_recorder[..]), ("iocreplay", &of_reader)] {
        let contents = done(Command::new("dpkg-deb").args(["--contents", &package(name)]));
        for expected in of_both(name).into_iter().chain(own.iter().map(ToString::to_string)) {
            let (mode, path) = expected.split_once(' ').expect("two words");
            let line = contents.lines().find(|line| line.ends_with(&format!(" {path}")));
            let mode = format!("{mode} root/root");
            assert!(line.is_some_and(|line| line.starts_with(&mode)), "{expected}: {contents}");
        }
        // both can be installed: no file is in both
        for line in contents.lines().filter(|line| !line.ends_with('/')) {
            assert!(all.insert(line.split(" ./").nth(1).expect("a path").to_owned()), "{line}");
        }
        let field = done(Command::new("dpkg-deb").args(["--field", &package(name), "Architecture"]));
        assert_eq!(field.trim(), "amd64");
    }
    let root = rig.path("root");
    fs::create_dir_all(format!("{root}/var/lib/dpkg")).expect("a directory");
    for file in ["status", "available"] {
        fs::write(format!("{root}/var/lib/dpkg/{file}"), "").expect("an empty data base");
    }
    let dpkg = |arguments: &[&str]| {
        // the scripts use DPKG_ROOT, since the root has no shell for chroot
        let mut dpkg = Command::new("dpkg");
        dpkg.args(["--root", &root, "--force-script-chrootless"]).args(arguments);
        done(&mut dpkg);
    };
    let there = |path: &str| Path::new(&root).join(path).exists();
    for name in ["iocrec", "iocreplay"] {
        dpkg(&["--install", &package(name)]);
        let output = done(Command::new(format!("{root}/usr/bin/{name}")).arg("--version"));
        assert_eq!(output.trim(), format!("{name} {version}"));
    }
    assert!(!there("etc/systemd/system/multi-user.target.wants/iocrec.service"));
    dpkg(&["--purge", "iocrec"]);
    assert!(!there("usr/bin/iocrec") && !there("etc/default/iocrec") && there("usr/bin/iocreplay"));
    assert!(!there("etc/logrotate.d/iocrec"));
    dpkg(&["--purge", "iocreplay"]);
    assert!(!there("usr/bin/iocreplay") && !there("usr/share/doc/iocreplay"));
}

/// For a wrong architecture, `make deb` prints one line with the possible ones, before it installs or builds anything.
#[test]
fn make_deb_lists_the_architectures() {
    let mut make = Command::new("make");
    make.args(["--silent", "-C", env!("CARGO_MANIFEST_DIR"), "deb", "ARCH=nonsense"]);
    // of a make that runs the tests
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
    let output = run(&mut make);
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    let [message, by_make] = lines[..] else { panic!("{errors}") };
    for part in ["'nonsense'", "ARCH=amd64", "ARCH=arm64", "ARCH=armhf"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(by_make.starts_with("make: ***"), "{by_make}");
}

/// A user without rights.
const NOBODY: u32 = 65534;

/// The SysV script in each shell that small machines have.
#[test]
fn the_init_script_starts_stops_and_reports() {
    let Some(rig) = Rig::new("init") else { return };
    fs::write(rig.path("defaults"), format!("DIRECTORY={}\nOPTIONS='--flush 200ms --only X*'\n", rig.log()))
        .expect("defaults");
    // for another user
    fs::set_permissions(&rig.dir, fs::Permissions::from_mode(0o755)).expect("its mode");
    fs::copy(repository("packaging/iocrec.init"), rig.path("iocrec.init")).expect("a copy");
    let (program, newer) = (rig.path("program"), rig.path("newer"));
    fs::copy(IOCREC, &program).expect("a copy");
    let shells: [&[&str]; 2] = [&["dash"], &["busybox", "sh"]];
    for shell in shells {
        let with = |pid: &str, action: &str| {
            let mut command = Command::new(shell[0]);
            command.args(&shell[1..]).arg(repository("packaging/iocrec.init")).arg(action);
            command.env("IOCREC_PROGRAM", &program).env("IOCREC_PIDFILE", rig.path(pid));
            command.env("IOCREC_MESSAGES", rig.path("messages")).env("IOCREC_DEFAULTS", rig.path("defaults"));
            let output = run(&mut command);
            (
                output.status.code(),
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
            )
        };
        if Command::new(shell[0]).arg("--help").output().is_err() && shell[0] != "dash" {
            not_run("the_init_script_starts_stops_and_reports", Needs::Program("busybox"));
            continue;
        }
        let script = |action: &str| with("pid", action);
        // what could not be stopped does not run
        let (code, output) = with("no-such-directory/pid", "start");
        assert_eq!(code, Some(1), "{output}");
        let status = || run(Command::new(IOCREC).args(["status", "--dir", &rig.log()])).status.code();
        wait_until("it has ended", || status() == Some(1));
        assert_eq!(script("status").0, Some(3));
        let (code, output) = script("start");
        assert_eq!(code, Some(0), "{output}");
        assert_eq!(script("status").0, Some(0));
        assert!(script("start").1.contains("already"));
        // another user can't see it, and is not told that it does not run, or that it was stopped
        let others_are_not_told = || {
            for action in ["status", "stop"] {
                let mut command = Command::new(shell[0]);
                command.args(&shell[1..]).arg(rig.path("iocrec.init")).arg(action).uid(NOBODY).gid(NOBODY);
                command.env("IOCREC_PIDFILE", rig.path("pid")).env("IOCREC_DEFAULTS", rig.path("defaults"));
                assert_eq!(run(&mut command).status.code(), Some(4), "{action}");
            }
        };
        others_are_not_told();
        wait_until("it records", || fs::read_dir(rig.log()).is_ok_and(|mut log| log.next().is_some()));
        // a package that is installed over it replaces the file of what runs
        fs::copy(IOCREC, &newer).and_then(|_| fs::rename(&newer, &program)).expect("another program");
        assert_eq!(script("status").0, Some(0), "it runs as before");
        let pid = fs::read_to_string(rig.path("pid")).expect("its number");
        // as who cleans /var/run up may do
        let forgotten = || fs::remove_file(rig.path("pid")).expect("it is there");
        forgotten();
        others_are_not_told();
        let (code, output) = script("status");
        assert_eq!((code, output.contains(pid.trim())), (Some(0), true), "{output}");
        assert!(script("start").1.contains("already"));
        assert_eq!(fs::read_to_string(rig.path("pid")).expect("its number again"), pid);
        forgotten();
        let (code, output) = script("stop");
        assert_eq!(code, Some(0), "{output}");
        // once its parent has waited for it
        wait_until("it is gone", || !Path::new("/proc").join(pid.trim()).exists());
        assert_eq!(script("status").0, Some(3));
        assert_eq!(script("stop").0, Some(0), "stopping what is stopped is no error");
    }
    assert_eq!(run(Command::new("sh").arg(repository("packaging/iocrec.init"))).status.code(), Some(2));
}

/// iocrec may need seconds to find out that it can't record; until then the script does not say that it runs.
#[test]
fn the_init_script_waits_for_what_iocrec_waits_for() {
    let Some(rig) = Rig::new("init-waits") else { return };
    // in place of the program: it is alive for three seconds, and never records
    let program = rig.path("program");
    fs::copy("/bin/sleep", &program).expect("a program");
    let defaults = format!("DIRECTORY={}\nOPTIONS=\n", rig.log());
    fs::write(rig.path("defaults"), defaults).expect("defaults");
    let text = fs::read_to_string(repository("packaging/iocrec.init")).expect("the script");
    let command = "\"$PROGRAM\" record --dir \"$DIRECTORY\" $OPTIONS";
    assert!(text.contains(command), "{text}");
    fs::write(rig.path("script"), text.replace(command, "\"$PROGRAM\" 3")).expect("a copy");
    let mut script = Command::new("sh");
    script.arg(rig.path("script")).arg("start").env("IOCREC_PROGRAM", &program);
    script.env("IOCREC_PIDFILE", rig.path("pid")).env("IOCREC_MESSAGES", rig.path("messages"));
    let output = run(script.env("IOCREC_DEFAULTS", rig.path("defaults")));
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!Path::new(&rig.path("pid")).exists(), "it does not run");
}

/// Who runs the program, too, and gets the number of a recorder that has ended, must not keep another from starting.
#[test]
fn another_user_s_process_does_not_count_as_the_recorder() {
    let Some(rig) = Rig::new("init-others") else { return };
    let program = rig.path("program");
    fs::copy("/bin/sleep", &program).expect("a program");
    fs::write(rig.path("defaults"), format!("DIRECTORY={}\nOPTIONS=\n", rig.log())).expect("defaults");
    let status = |user: u32| {
        let mut process = Command::new(&program).arg("60").uid(user).gid(user).spawn().expect("a process");
        fs::write(rig.path("pid"), format!("{}\n", process.id())).expect("its number");
        let mut script = Command::new("sh");
        script.arg(repository("packaging/iocrec.init")).arg("status").env("IOCREC_PROGRAM", &program);
        script.env("IOCREC_PIDFILE", rig.path("pid")).env("IOCREC_MESSAGES", rig.path("messages"));
        let code = run(script.env("IOCREC_DEFAULTS", rig.path("defaults"))).status.code();
        process.kill().and_then(|()| process.wait()).expect("its end");
        code
    };
    assert_eq!((status(0), status(NOBODY)), (Some(0), Some(3)));
}

/// iocrec takes the options that the example in /etc/default/iocrec shows, as the scripts read them.
#[test]
fn the_example_of_options_is_taken() {
    let Some(rig) = Rig::new("defaults") else { return };
    let defaults = fs::read_to_string(repository("packaging/iocrec.default")).expect("the file");
    let example = defaults.lines().find_map(|line| line.strip_prefix("#OPTIONS=")).expect("an example");
    let sourced = rig.path("defaults");
    fs::write(&sourced, format!("OPTIONS={example}\n")).expect("a copy");
    let words = done(Command::new("sh").args(["-c", "set -ef; . \"$0\"; printf '%s\\n' $OPTIONS", &sourced]));
    let words: Vec<&str> = words.lines().collect();
    assert!(words.len() >= 4, "{words:?}");
    let (log, nothing) = (rig.log(), rig.path("nothing"));
    let mut command = Command::new(IOCREC);
    command.args(["record", "--dir", &log, "--read", &nothing]).args(&words);
    let output = run(&mut command);
    // 2 would be a usage error; the file to read does not exist
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The OpenRC script gives iocrec the options as they are written, and stops nothing but iocrec.
#[test]
fn the_openrc_script_leaves_other_processes_alone() {
    let Some(rig) = Rig::new("openrc") else { return };
    let (calls, pid, stand_in) = (rig.path("calls"), rig.path("pid"), rig.path("start-stop-daemon"));
    fs::write(&stand_in, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >>'{calls}'\n")).expect("a stand-in");
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).expect("its mode");
    let script = |words: &str| {
        fs::write(&calls, "").expect("an empty file");
        let text = format!(
            "ebegin() {{ :; }}; eend() {{ return \"$1\"; }}; . '{}'; pidfile='{pid}'; {words}",
            repository("packaging/iocrec.openrc")
        );
        let path = format!("{}:{}", rig.dir.display(), std::env::var("PATH").unwrap_or_default());
        let output = run(Command::new("sh").args(["-c", &text]).env("PATH", path));
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(&calls).expect("the calls")
    };
    // the number of one that has ended is another process's by now: ours
    fs::write(&pid, format!("{}\n", std::process::id())).expect("its number");
    assert_eq!(script("stop"), "");
    assert!(!Path::new(&pid).exists(), "it counts as stopped");
    fs::write(&pid, format!("{}\n", std::process::id())).expect("its number");
    let started = script("DIRECTORY=\"it's here\"; OPTIONS='--only A<1>;B*'; start");
    assert!(started.ends_with("\niocrec\nit's here\n--only A<1>;B*\n"), "{started}");
    assert!(!Path::new(&pid).exists(), "a number that is not iocrec's");
    // the file was deleted while iocrec runs; here a process that has its words
    let words = ["-c", "read -r end", "/usr/bin/iocrec", "record", "--dir"];
    let mut runs = Command::new("sh").args(words).stdin(Stdio::piped()).spawn().expect("a process");
    let calls = script(&format!("recorder() {{ echo {}; }}; stop", runs.id()));
    // another user, who asks whether it runs
    let number = runs.id();
    script(&format!("id() {{ echo {NOBODY}; }}; recorder() {{ echo {number}; }}; rm -f '{pid}'; alive"));
    // without its number he can't know
    let asked = "recorder() { :; }; service_started() { :; }; eerror() { :; }; status; [ $? = \"$code\" ]";
    for (user, code) in [(NOBODY, 1), (0, 32)] {
        script(&format!("id() {{ echo {user}; }}; code={code}; rm -f '{pid}'; {asked}"));
    }
    drop(runs.stdin.take());
    runs.wait().expect("its end");
    assert!(calls.starts_with("--stop\n"), "{calls}");
    // another user's process with these words
    let mut command = Command::new("sh");
    command.args(words).uid(NOBODY).gid(NOBODY).stdin(Stdio::piped());
    let mut theirs = command.spawn().expect("a process");
    fs::write(&pid, format!("{}\n", theirs.id())).expect("its number");
    assert_eq!(script("stop"), "");
    drop(theirs.stdin.take());
    theirs.wait().expect("its end");
}

#[test]
fn systemd_takes_the_unit() {
    let Some(rig) = Rig::new("unit") else { return };
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return not_run("systemd_takes_the_unit", Needs::Program("systemd-analyze"));
    }
    let unit = fs::read_to_string(repository("packaging/iocrec.service")).expect("the unit");
    // either keeps iocrec from a directory that /etc/default/iocrec names, or from one that was moved
    assert!(!unit.contains("\nProtectSystem=strict") && !unit.contains("\nLogsDirectory="), "{unit}");
    let unit = unit.replace("/usr/bin/iocrec", IOCREC).replace("/usr/share/doc/iocrec", &repository("docs"));
    let path = rig.path("iocrec.service");
    fs::write(&path, unit).expect("a copy");
    let output = run(Command::new("systemd-analyze").args(["verify", "--man=no", &path]));
    let errors = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> = errors.lines().filter(|line| line.contains("iocrec.service")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

/// The long options in a manual page, which are words such as `Fl -name`.
fn options_named(text: &str) -> BTreeSet<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let named = words.windows(2).filter_map(|pair| match pair {
        ["Fl" | ".Fl" | "|", option] => option.strip_prefix('-'),
        _ => None,
    });
    named.map(|name| format!("--{name}")).collect()
}

/// The manual pages name each subcommand with exactly its options, and explain them all.
#[test]
fn manual_pages_say_what_help_says() {
    for program in [Path::new(IOCREC), iocreplay()] {
        let name = program.file_name().expect("a name").to_str().expect("UTF-8");
        let page = fs::read_to_string(repository(&format!("docs/man/{name}.1"))).expect("the page");
        let explained =
            page.lines().filter(|line| line.starts_with(".It Fl ")).map(|line| line.replace(',', "|"));
        let explained = options_named(&explained.collect::<Vec<_>>().join("\n"));
        let help = done(Command::new(program).arg("--help"));
        let commands = help.split_once("Commands:\n").expect("a list of commands").1;
        let commands = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
        assert!(commands.len() > 4, "{help}");
        for command in &commands {
            let help = done(Command::new(program).args([command, "--help"]));
            let list = help.split_once("Options:\n").expect("a list of options").1;
            let lines = list.lines().filter(|line| line.starts_with("  -"));
            let has = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
            let has: BTreeSet<String> =
                has.filter(|&option| option != "--help,").map(str::to_string).collect();
            let section = page.split_once(&format!("\n.Ss {command}\n"));
            let section = section.unwrap_or_else(|| panic!("{name}.1 has no section {command}")).1;
            let section = section.split("\n.S").next().expect("a beginning");
            // Other names of options are in the help of the option.
            let other_names: BTreeSet<String> = options_named(section).difference(&has).cloned().collect();
            let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
            let in_help = |name: &String| words.to_lowercase().contains(&format!("also {name}"));
            assert!(other_names.iter().all(in_help), "{name} {command}: {other_names:?} is not in --help");
            let all: BTreeSet<String> = has.union(&other_names).cloned().collect();
            assert_eq!(options_named(section), all, "{name} {command}: the page, --help");
            let missing: Vec<_> = has.difference(&explained).collect();
            assert!(missing.is_empty(), "{name}.1 does not explain {missing:?}");
        }
        let sections = page.lines().filter_map(|line| line.strip_prefix(".Ss "));
        assert!(
            sections.clone().all(|section| commands.contains(&section)),
            "{name}.1: a section of no command"
        );
    }
}
