"""iocrec as a service under real init systems, in guests that cross/boot-test.py boots.

The root file system consists of Debian's packages, unpacked without running their scripts. The init system is the
guest's first process and starts guest/service.sh last. That script installs our package with dpkg, starts, queries,
stops and kills the service by the init system's own commands, upgrades the package during a recording, and removes
it.
"""

import datetime
import json
import pathlib
import re
import shutil

HERE = pathlib.Path(__file__).resolve().parent

# Debian's packages of each init system; apt adds their dependencies. busybox, which every guest has, contains an init
# that starts SysV scripts.
PACKAGES = {"systemd": ["systemd", "perl-base"], "openrc": ["openrc", "initscripts", "perl-base"], "sysv": []}
# dpkg, and the ldconfig that it calls.
INSTALLER = ["dpkg", "libc-bin"]
# For update-rc.d, which systemctl calls as well. Without its dependencies, which convert file systems to a merged /usr.
ALONE = {"systemd": ["init-system-helpers"], "openrc": ["init-system-helpers"], "sysv": []}
# The program of the first process.
FIRST = {"systemd": "systemd", "openrc": "openrc-init", "sysv": "busybox"}
# busybox applets for guest/service.sh and the scripts of packages. A package's own program comes first.
APPLETS = """[ awk base64 basename cat chgrp chmod chown cmp cp cut date dd df diff dirname dmesg echo egrep env
    expr false find fgrep getopt grep gzip head hostname id install kill ln ls mkdir mknod mktemp mount mv pidof
    poweroff printf ps pwd readlink realpath rm rmdir sed seq sh sleep sort start-stop-daemon stat stty sync sysctl
    tail tar tee test touch tr true tty umount uname uniq usleep wc which xargs""".split()
# Appended to the version of the second package, which upgrades the first. Its programs are the same.
SECOND = "+second"
# Documentation, which the guest does not need.
LEFT_OUT = ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/perl"]
ACCOUNTS = [
    "root:x:0:",
    "uucp:x:10:",
    "tty:x:5:",
    "adm:x:4:",
    "utmp:x:43:",
    "systemd-journal:x:101:",
    "nogroup:x:65534:",
]

# Init systems want to leave the first file system, which the kernel's initramfs does not allow.
EARLY = """#!/bin/busybox sh
/bin/busybox mkdir -p /root
/bin/busybox mount -t tmpfs -o size=80%,mode=755 tmpfs /root
/bin/busybox cp -a /files/. /root/
/bin/busybox mount -t devtmpfs devtmpfs /root/dev
exec /bin/busybox switch_root /root /sbin/init
"""

INITTAB = """::sysinit:/etc/init.d/rcS
::once:/bin/sh /service.sh sysv
"""
RC_S = """#!/bin/sh
# as the first script of a small box
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
hostname guest
"""
LAST_OPENRC = """#!/sbin/openrc-run
start() {
    /bin/sh /service.sh openrc &
}
"""
LAST_SYSTEMD = """[Unit]
Description=The test

[Service]
Type=oneshot
ExecStart=/bin/sh /service.sh systemd
"""

# The capabilities that iocrec keeps (docs/operating.md), by their bits in linux/capability.h.
KEPT = {"CAP_DAC_READ_SEARCH": 2, "CAP_NET_RAW": 13, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21}
# Files that the user may have changed. Only a purge removes them.
SETTINGS = {"/etc/default/iocrec", "/etc/init.d/iocrec", "/etc/logrotate.d/iocrec"}
# What else may stay: the log, and the links by which Debian keeps a removed service from starting.
ANYWAY = {"install": "/var/log/iocrec", "remove": r"/var/log/iocrec|/etc/rc\d\.d/K", "purge": "/var/log/iocrec"}
# Seconds from the stop command to the end of the process. The requirement is one second on a real machine; this one is
# emulated, on a machine that may be busy. Waiting for the probes to be removed would take longer.
LEAVES_WITHIN = 15


def write(place, text, mode=0o644):
    """Makes a file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)


def link(place, target):
    """Makes a symbolic link, replacing another."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def files(top, service, archive, run, package, busybox, imitation, now):
    """Puts the guest's file system below `top`.

    `archive`: Debian's packages; `run`: runs a command; `package`: iocrec's own package."""
    root = top / "files"
    (top / "bin").mkdir(parents=True)
    shutil.copy(busybox, top / "bin/busybox")
    write(top / "init", EARLY, 0o755)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        link(root / name, f"usr/{name}")
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "var/log", "var/lib"):
        (root / name).mkdir(parents=True)
    link(root / "var/run", "/run")
    wanted = run(
        [
            "apt-get",
            "-c",
            archive.configuration,
            "install",
            "-s",
            "--no-install-recommends",
            *PACKAGES[service],
            *INSTALLER,
        ]
    )
    for name in re.findall("^Inst (\\S+)", wanted, re.M) + ALONE[service]:
        # the links above stay links
        shutil.copytree(archive.unpacked(name), root, symlinks=True, dirs_exist_ok=True)
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "var/lib/dpkg/info").mkdir(parents=True, exist_ok=True)
    write(root / "var/lib/dpkg/status", "")
    packages(root / "packages", package, run)
    shutil.copy(busybox, root / "bin/busybox")
    for name in APPLETS:
        if not any((root / place / name).exists() for place in ("bin", "sbin")):
            link(root / "bin" / name, "busybox")
    shutil.copy(imitation, root / "bin/imitation")
    write(root / "service.sh", (HERE / "guest/service.sh").read_text(), 0o755)
    write(root / "clock", str(now))
    write(root / "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
    write(root / "etc/group", "\n".join(ACCOUNTS) + "\n")
    write(root / "etc/hostname", "guest\n")
    write(root / "etc/fstab", "")
    {"systemd": with_systemd, "openrc": with_openrc, "sysv": with_sysv}[service](root)


def packages(place, package, run):
    """Makes our package, and a copy of it with a later version."""
    place.mkdir()
    shutil.copy(package, place / "first.deb")
    run(["dpkg-deb", "--raw-extract", package, place / "second"])
    control = place / "second/DEBIAN/control"
    control.write_text(re.sub("^(Version: .*)$", f"\\1{SECOND}", control.read_text(), flags=re.M))
    run(["dpkg-deb", "-Zgzip", "--root-owner-group", "--build", place / "second", place / "second.deb"])
    shutil.rmtree(place / "second")


def with_systemd(root):
    """systemd comes up as far as its multi-user target, and then runs the test."""
    link(root / "sbin/init", "/lib/systemd/systemd")
    # without udev it would wait for the console forever
    (root / "usr/lib/systemd/system-generators/systemd-getty-generator").unlink(missing_ok=True)
    # without it, the first boot asks questions
    write(root / "etc/machine-id", "0" * 31 + "1\n")
    units = root / "etc/systemd/system"
    write(units / "guest.service", LAST_SYSTEMD)
    link(units / "multi-user.target.wants/guest.service", "../guest.service")
    link(units / "default.target", "/lib/systemd/system/multi-user.target")


def with_openrc(root):
    """OpenRC's own first process, with Debian's scripts for the machine."""
    link(root / "sbin/init", "openrc-init")
    write(root / "etc/init.d/guest", LAST_OPENRC, 0o755)
    levels = {"sysinit": ["mountkernfs.sh", "mountdevsubfs.sh"], "default": ["guest"]}
    for level, names in levels.items():
        for name in names:
            link(root / "etc/runlevels" / level / name, f"/etc/init.d/{name}")


def with_sysv(root):
    """busybox's init, as on a box with nothing else."""
    link(root / "sbin/init", "/bin/busybox")
    write(root / "etc/inittab", INITTAB)
    write(root / "etc/init.d/rcS", RC_S, 0o755)


def moment(text):
    """A time as iocreplay prints it. A datetime takes six of the nine digits."""
    return datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", text))


def examine(service, console, place, replay):
    """The differences between a guest's results and the expected ones (empty if there are none), and a summary."""
    read = lambda name: (place / "tmp" / name).read_text() if (place / "tmp" / name).exists() else ""
    wrong = []

    def must(condition, *message):
        if not condition:
            wrong.append(" ".join(map(str, message)))

    first = re.search(r"^FIRST (\S+)$", console, re.M).group(1)
    must(first == FIRST[service], "the first process is", first)
    ends = dict(re.findall(r"^EXIT (\w+) (\d+)$", console, re.M))
    expected = {
        name: "0"
        for name in (
            "install",
            "enable",
            "start",
            "status",
            "recorder",
            "stop",
            "again",
            "after",
            "upgrade",
            "upgraded",
            "remove",
            "purge",
            "ioc",
        )
    }
    expected["stopped"] = "3"
    if service != "systemd":
        # the script has not noticed the end; OpenRC has an exit code of its own for that
        expected |= {"killed": "3" if service == "sysv" else "32", "restart": "0"}
    for name in expected:
        must(
            ends.get(name) == expected[name],
            f"{name} ended with {ends.get(name)}:",
            " ".join(read(f"{name}.txt").split()[-40:]),
        )
    process = dict(line.split(":\t", 1) for line in read("process.txt").splitlines() if ":\t" in line)
    kept = sum(1 << bit for bit in KEPT.values())
    for name in ("CapPrm", "CapEff", "CapBnd"):
        must(int(process.get(name, "0"), 16) == kept, name, process.get(name), "not", f"{kept:016x}")
    for name in ("CapInh", "CapAmb"):
        must(int(process.get(name, "1"), 16) == 0, name, process.get(name))
    must(process.get("NoNewPrivs") == "1", "NoNewPrivs", process.get("NoNewPrivs"))
    modes = read("modes.txt").splitlines()
    must(
        len(modes) > 1
        and all(line.startswith("drwxr-x--- " if line.endswith("/iocrec") else "-rw-r----- ") for line in modes),
        modes,
    )
    log = place / "var/log/iocrec"
    puts = [json.loads(line) for line in replay(["puts", "--all", "--format", "jsonl"], log).splitlines()]
    whole = [put for put in puts if put["new"] == put["requested"] + 1]
    # each run may cut one put off at its end
    cut = [put for put in puts if put["new"] is None]
    must(
        len(whole) > 20 and len(cut) <= 4 and len(whole) + len(cut) == len(puts),
        len(whole),
        "whole puts of",
        len(puts),
        cut[3:],
    )
    info = json.loads(replay(["info", "--json"], log))
    must(len(info["runs"]) == 4, len(info["runs"]), "runs in the log")
    must(
        not any(run[what] for run in info["runs"] for what in ("damage", "missing_segments", "losses")),
        "the log has losses:",
        info["runs"],
    )
    cut_off = replay(["verify"], log).count("its end is not recorded")
    must(cut_off == 1, cut_off, "runs are cut off; expected one, which was killed")
    must(
        read("program.txt") == "/usr/bin/iocrec\n",
        "program after the upgrade:",
        read("program.txt") or "the same process",
    )
    must("--max-disk 32M" in read("command.txt"), "command line after the upgrade:", read("command.txt"))
    must(read("version.txt").strip().endswith(SECOND), "installed version:", read("version.txt"))
    # Each step leaves only the files that docs/operating.md names.
    for when, expected in (("install", SETTINGS), ("remove", SETTINGS), ("purge", set())):
        left = {name for name in read(f"files-{when}.txt").split() if not re.match(ANYWAY[when], name)}
        must(left == expected, "files left after", when, ":", left)
    times = {
        name: float(end) - float(begin) for name, begin, end in re.findall(r"^TIME (\S+) (\S+) (\S+)$", console, re.M)
    }
    for name in ("stop-process", "remove-process"):
        must(times.get(name, 1e9) < LEAVES_WITHIN, name, "took", times.get(name))
    unrecorded = (moment(info["runs"][-1]["first"]) - moment(info["runs"][-2]["last"])).total_seconds()
    release, up = re.search(r"^BEGIN (\S+) up (\S+)$", console, re.M).groups()
    took = {name: f"{seconds:.1f} s" for name, seconds in times.items()}
    line = (
        f"{release}, {first}: {len(info['runs'])} runs, {len(puts)} puts; after the stop command the process "
        f"ends within {took.get('stop-process')}, the service within {took.get('stop')}; init up after {up} s; "
        f"dpkg takes {took.get('install')} to install, {took.get('upgrade')} to upgrade "
        f"({unrecorded:.1f} s of it not recorded), {took.get('remove')} to remove"
    )
    return "; ".join(wrong), line
