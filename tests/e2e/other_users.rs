//! Other users of the machine: they lock the log's directory, take the socket's name, or own the directory. And secrets,
//! which no log contains.

use crate::rig::{json_lines, python, rig_file, run, wait_until, Rig, Running, IOCREC};
use serde_json::Value;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{chown, lchown, symlink, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

const PORT: u16 = 5074;
/// A user without rights.
const NOBODY: u32 = 65534;

fn agent(arguments: &[&str]) -> Output {
    run(Command::new(IOCREC).args(arguments))
}

fn line_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Makes a directory for the log that anybody may read.
fn open_directory(rig: &Rig) {
    fs::create_dir(rig.log()).expect("a directory");
    for path in [rig.dir.clone(), rig.log().into()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
}

fn locks(inode: u64) -> usize {
    let locks = fs::read_to_string("/proc/locks").expect("the list");
    locks.lines().filter(|line| line.contains("FLOCK") && line.contains(&format!(":{inode} "))).count()
}

fn records(recorder: &Running, log: &str) {
    wait_until("it records", || {
        let output = agent(&["status", "--dir", log, "--json"]);
        let about: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        about["pid"] == recorder.pid() && about["stored"].as_u64() > Some(0)
    });
}

/// Any user who may open the directory can lock it. The recorder reports the user, and records all the same.
#[test]
fn a_lock_of_another_user() {
    let Some(rig) = Rig::new("foreign-lock") else { return };
    open_directory(&rig);
    let log = rig.log();
    let inode = fs::metadata(&log).expect("it is there").ino();
    // the child has the lock, too: flock's descriptor is inherited
    let mut command = Command::new("flock");
    command.args([&log, "cat"]).uid(NOBODY).gid(NOBODY);
    let mut stranger = rig.by("flock", &mut command);
    wait_until("it is locked", || locks(inode) > 0);
    let mut recorder = rig.agent(&["record", "--dir", &log, "--flush", "100ms"]);
    records(&recorder, &log);
    let errors = recorder.errors();
    let line =
        errors.lines().find(|line| line.contains("is not a recorder")).unwrap_or_else(|| panic!("{errors}"));
    assert!(line.contains(&format!("of user {NOBODY}")) && line.contains("process "), "{line}");
    assert!(line.contains(&format!("process {} ", stranger.pid())) || line.contains("(cat)"), "{line}");
    // a second recorder is kept off all the same
    let second = agent(&["record", "--dir", &log, "--duration", "1s"]);
    let line = line_of(&second);
    assert!(second.status.code() == Some(1) && line.contains("another recorder"), "{line}");
    // the lock is taken as soon as it can be
    assert_eq!(fs::metadata(format!("{log}/.iocrec-lock")).expect("a lock").mode() & 0o777, 0o600);
    stranger.close();
    wait_until("it has the lock", || recorder.errors().contains("the recorder has the lock now"));
    let names: Vec<_> = fs::read_dir(&log).expect("the log").flatten().map(|file| file.file_name()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().ends_with(".iocrec")), "{names:?}");
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// Any user can take the name of the recorder's socket, and answer in its place.
#[test]
fn a_socket_name_of_another_user() {
    let Some(rig) = Rig::new("squatted") else { return };
    open_directory(&rig);
    let log = rig.log();
    let about = fs::metadata(&log).expect("it is there");
    let name = format!("iocrec/{:x}/{:x}", about.dev(), about.ino());
    let squat = move || {
        // SAFETY: the system call alone, without the library's care for other threads: this one alone is another user.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).expect("a name")).expect("a socket")
    };
    let squatter = std::thread::spawn(squat).join().expect("the name is taken");
    // without a recorder, nobody asks the squatter
    let asked = agent(&["status", "--dir", &log]);
    assert!(line_of(&asked).contains("no recorder writes to"), "{}", line_of(&asked));
    let mut recorder = rig.agent(&["record", "--dir", &log, "--flush", "100ms"]);
    records(&recorder, &log);
    let words = format!("process {} of user {NOBODY} has the socket name", std::process::id());
    wait_until("it reports who has the name", || recorder.errors().contains(&words));
    let marked = agent(&["mark", "--dir", &log, "here"]);
    assert!(marked.status.success(), "{}", line_of(&marked));
    drop(squatter);
    wait_until("it has its name back", || {
        let sockets = run(Command::new("cat").arg("/proc/net/unix"));
        let sockets = String::from_utf8_lossy(&sockets.stdout).into_owned();
        let names: Vec<&str> =
            sockets.lines().filter_map(|line| line.rsplit_once(" @")).map(|(_, name)| name).collect();
        let own = format!("iocrec/{:x}/{:x}", about.dev(), about.ino());
        names.contains(&own.as_str()) && !names.iter().any(|name| name.starts_with(&format!("{own}/")))
    });
    records(&recorder, &log);
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// Who may not ask is told so: there is nothing wrong with the recorder.
#[test]
fn a_user_who_may_not_ask() {
    let Some(rig) = Rig::new("may-not-ask") else { return };
    open_directory(&rig);
    let (log, program) = (rig.log(), rig.path("iocrec"));
    // the user may not be let to where it was built
    fs::copy(IOCREC, &program).expect("a copy");
    let mut recorder = rig.agent(&["record", "--dir", &log, "--flush", "100ms"]);
    records(&recorder, &log);
    for arguments in [&["status", "--dir", &log][..], &["mark", "--dir", &log, "x"]] {
        let asked = run(Command::new(&program).args(arguments).uid(NOBODY).gid(NOBODY));
        let line = line_of(&asked);
        assert_eq!(asked.status.code(), Some(1), "{line}");
        assert!(line.contains("does not answer this user; run this as root"), "{line}");
    }
    records(&recorder, &log);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    // who can't look into the directory does not know whether a recorder writes to it
    fs::set_permissions(&log, fs::Permissions::from_mode(0o700)).expect("it is closed");
    for arguments in [&["status", "--dir", &log][..], &["mark", "--dir", &log, "x"]] {
        let asked = run(Command::new(&program).args(arguments).uid(NOBODY).gid(NOBODY));
        let line = line_of(&asked);
        assert_eq!(asked.status.code(), Some(1), "{line}");
        assert!(line.contains("Permission denied") && !line.contains("no recorder"), "{line}");
    }
}

/// Directories that others may write to, or own.
#[test]
fn directories_of_others() {
    let Some(rig) = Rig::new("directories") else { return };
    let refused = |path: &str, words: &[&str]| {
        let output = agent(&["record", "--dir", path, "--duration", "1s"]);
        let line = line_of(&output);
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
        assert!(words.iter().all(|word| line.contains(word)) && line.contains(path), "{line}");
        assert_eq!(fs::read_dir(path).expect("a directory").count(), 0, "it wrote there");
    };
    let set = |path: &str, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode is changed");
    };
    fs::create_dir(rig.log()).expect("a directory");
    set(&rig.log(), 0o777);
    refused(&rig.log(), &["any user may write", "mode 777", "chmod o-w"]);
    chown(rig.log(), Some(NOBODY), None).expect("its owner is changed");
    refused(&rig.log(), &["any user may write", "owner 65534"]);
    set(&rig.log(), 0o700);
    let theirs = rig.dir.to_str().expect("a path").to_string();
    set(&theirs, 0o1777);
    refused(&rig.log(), &["belongs to user 65534", "chown"]);
    // an administrator has made it for somebody
    set(&theirs, 0o755);
    let mut recorder = rig.agent(&["record", "--dir", &rig.log(), "--flush", "100ms", "--duration", "1s"]);
    assert!(recorder.wait().success(), "{}", recorder.errors());
    assert!(
        recorder.errors().contains("belongs to user 65534, who may change the log"),
        "{}",
        recorder.errors()
    );
    chown(rig.log(), Some(0), None).expect("its owner is changed");
    set(&rig.log(), 0o770);
    let mut recorder = rig.agent(&["record", "--dir", &rig.log(), "--flush", "100ms", "--duration", "1s"]);
    assert!(recorder.wait().success(), "{}", recorder.errors());
    assert!(recorder.errors().contains("chmod g-w"), "{}", recorder.errors());
}

/// Who may put a link on the way could let it lead anywhere: root makes nothing there. Directories of that user are no
/// obstacle.
#[test]
fn a_link_of_another_user_on_the_way() {
    let Some(rig) = Rig::new("foreign-link") else { return };
    let (theirs, secret) = (rig.path("theirs"), rig.path("secret"));
    fs::create_dir(&theirs).expect("a directory");
    fs::create_dir(&secret).expect("a directory");
    let way = format!("{theirs}/way");
    symlink(&secret, &way).expect("a link");
    for path in [&theirs, &way] {
        lchown(path, Some(NOBODY), Some(NOBODY)).expect("its owner is changed");
    }
    let output = agent(&["record", "--dir", &format!("{way}/log"), "--duration", "1s"]);
    let line = line_of(&output);
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(
        line.contains(&format!("/theirs/way is a symbolic link of user {NOBODY}, who may let ")),
        "{line}"
    );
    assert_eq!(fs::read_dir(&secret).expect("a directory").count(), 0, "it made something there");
    fs::create_dir(format!("{theirs}/plain")).expect("a directory");
    let log = format!("{theirs}/plain/log");
    let mut recorder = rig.agent(&["record", "--dir", &log, "--flush", "100ms", "--duration", "1s"]);
    assert!(recorder.wait().success(), "{}", recorder.errors());
    assert!(fs::read_dir(&log).expect("the log").count() > 0);
}

/// No log contains secrets from command lines or environments, or programs' source texts.
#[test]
fn secrets_stay_where_they_are() {
    let Some(rig) = Rig::new("secrets") else { return };
    let command = |port: u16| {
        let mut command = python("ioc.py");
        command.arg("secrets").arg(port.to_string()).arg(rig_file("puts.db"));
        command.args(["--macros", "P=X:,DB_PassWord=hunter2"]);
        for variable in ["EPICS_CA_PASSWORD", "EPICS_PVAS_TLS_KEYCHAIN", "TOP", "LOCATION", "ENGINEER"] {
            command.env(variable, "hunter2");
        }
        command
    };
    let ioc = rig.ioc_by("secrets", &mut command(PORT));
    let text = format!(
        "import sys, runpy; token = 'hunter2'; sys.argv[1:] = ['{}', 'X']; runpy.run_path('{}', run_name='__main__')",
        PORT + 20,
        rig_file("foreign_server.py").display()
    );
    let mut python_c = Command::new(python("ioc.py").get_program());
    let foreign = rig.ioc_by("foreign", python_c.args(["-c", &text]));
    let pids = [ioc.pid_argument(), foreign.pid_argument()];
    let known = |rig: &Rig| json_lines(&rig.replay("iocs", &["--json"]).stdout);
    for without in [false, true] {
        let mut arguments = vec!["--pid", &pids[0], "--pid", &pids[1]];
        arguments.extend(without.then_some("--no-command-lines"));
        let _ = fs::remove_dir_all(rig.log());
        let mut recorder = rig.record(&arguments);
        wait_until("both are known", || {
            let known = known(&rig);
            known.len() == 2
                && known.iter().all(|ioc| ioc["ca_ports"].as_array().is_some_and(|ports| !ports.is_empty()))
        });
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let (known, errors) = (known(&rig), recorder.errors());
        let all = format!("{known:?}{errors}");
        assert!(!all.contains("hunter2") && !all.contains("runpy"), "{all}");
        let own = known.iter().find(|known| known["ioc"] == "secrets").expect("the IOC");
        assert!(
            own["environment"]["EPICS_CAS_SERVER_PORT"].is_string() && own["environment"]["TOP"].is_null(),
            "{own}"
        );
        let foreign = known.iter().find(|known| known["ioc"] != "secrets").expect("the server");
        assert!(foreign["ioc"].as_str().is_some_and(|name| name.starts_with("python")), "{foreign}");
        let words = own["command"].as_array().expect("arguments");
        if without {
            assert!(words.is_empty(), "{own}");
        } else {
            assert!(words.iter().any(|word| word == "P=X:,DB_PassWord=***"), "{own}");
        }
    }
    // nor on the terminal
    let checked = agent(&["check"]);
    assert!(!String::from_utf8_lossy(&checked.stdout).contains("hunter2"));
}
