"""Makes the file system that a guest boots into: busybox, the static binaries, and an IOC or an imitation of one."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import restricted
import services
from debian import Archive, run

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
APPLETS = "sh hostname mount ifconfig date cut uname sleep tar gzip base64 poweroff echo grep cat seq".split()
# Seconds of the guest's time for which the imitation is recorded.
RECORDED = 4

INIT = """#!/bin/sh
# The guest's first process.
export PATH=/bin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
mount -t tmpfs tmpfs /tmp
hostname guest
ifconfig lo 127.0.0.1 up
# machines without a clock begin in 1970
date -s @{now} >/dev/null
echo "CLOCK {now} $(cut -d ' ' -f 1 /proc/uptime)"
echo 3 >/proc/sys/kernel/printk
echo "BEGIN $(uname -r) up $(cut -d ' ' -f 1 /proc/uptime)"
echo "LOCKDOWN $(cat /sys/kernel/security/lockdown 2>/dev/null)"
{begin}
iocrec check --json >/tmp/check.json 2>/tmp/check.err
echo "EXIT check $?"
echo "START $(cut -d ' ' -f 1 /proc/uptime)"
iocrec record --io --dir /tmp/log 2>/tmp/record.err &
recorder=$!
# placing probes may take many seconds on an emulated, busy machine
for second in $(seq 60); do
    iocrec status --dir /tmp/log --json 2>/dev/null | grep -q '"iocs":\\[{{' && break
    sleep 1
done
{middle}
echo "RESIDENT $(grep VmRSS /proc/$recorder/status | grep -o '[0-9]*')"
kill $recorder
wait $recorder
echo "EXIT record $?"
{end}
wait $ioc
echo "EXIT ioc $?"
echo FILES
tar -C /tmp -c check.json check.err record.err ioc.err log | gzip | base64
echo END
poweroff -f
"""

# Shell code to run before, during and after the recording: for the imitation, and for a real IOC.
IMITATION = (
    "IOC=guest imitation 600 2>/tmp/ioc.err & ioc=$!; sleep 1",
    # then this shell, process 1, kills one, and another one crashes
    f"""sleep {RECORDED}
for name in victim crash; do
    IOC=$name imitation 600 2>/dev/null & pid=$!
    for second in $(seq 30); do
        iocrec status --dir /tmp/log --json 2>/dev/null | grep -q $name && break
        sleep 1
    done
    # an emulated, busy machine may take more than a second until its signals are watched
    sleep 4
    [ $name = victim ] && kill -9 $pid || kill -USR1 $pid
done
sleep 2""",
    "kill $ioc",
)
REAL = (
    """: >/tmp/ioc.err
export IOC=guest EPICS_CA_AUTO_ADDR_LIST=NO EPICS_CA_ADDR_LIST=127.0.0.1 EPICS_CAS_INTF_ADDR_LIST=127.0.0.1
export EPICS_CAS_BEACON_ADDR_LIST=127.0.0.1 EPICS_CAS_AUTO_BEACON_ADDR_LIST=NO
# it exits at the end of its stdin
{ until [ -e /tmp/over ]; do sleep 1; done; } | own_ioc /usr/share/epics/dbd /ioc.db >/tmp/ioc.out 2>&1 & ioc=$!
for second in $(seq 60); do grep -q ready /tmp/ioc.out && break; sleep 1; done
cat /tmp/ioc.out""",
    """sleep 1
for number in 1 2 3 4 5; do caput -w 20 GUEST:SP $number; done
caput -w 20 -c GUEST:SP 6
sleep 2""",
    ": >/tmp/over",
)


def zig():
    """The environment that cross/build's compilers need."""
    cache = str(TOP / "target/cross/zig-cache")
    return dict(
        os.environ,
        PATH=f"{TOP}/target/cross/zig/bin:{os.environ['PATH']}",
        ZIG_GLOBAL_CACHE_DIR=cache,
        ZIG_LOCAL_CACHE_DIR=cache,
    )


def epics(guest, root):
    """Puts EPICS Base of the guest's Debian into a file system, and an IOC built with it."""
    archive = Archive(guest.suite, guest.debian)
    wanted = run(["apt-get", "-c", archive.configuration, "install", "-s", "--no-install-recommends", "epics-base"])
    for package in re.findall("^Inst (\\S+)", wanted, re.M):
        # a symbolic link to a directory (/lib) stays a link
        shutil.copytree(archive.unpacked(package), root, symlinks=True, dirs_exist_ok=True)
    # lib64 has the loader of x86_64
    for name in ("lib", "lib64"):
        if not (root / name).exists() and (root / "usr" / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    headers = [archive.unpacked(package) / "usr/include/epics" for package in ("epics-dev", "libca-dev", "libcom-dev")]
    includes = [f"-I{place}" for top in headers for place in (top, top / "os/Linux", top / "compiler/gcc")]
    (libraries,) = root.glob("usr/lib/*-linux-gnu")
    linked = [next(libraries.glob(f"lib{name}.so.*")) for name in ("dbCore", "dbRecStd", "ca", "Com")]
    run(
        [
            TOP / "target/cross/zig/bin/python",
            "-m",
            "ziglang",
            "cc",
            "-target",
            f"{libraries.name}.2.36",
            "-O1",
            "-o",
            root / "bin/own_ioc",
            TOP / "tests/rig/own_ioc.c",
            TOP / "tests/rig/own_threads.c",
            *includes,
            "-Wl,--no-as-needed",
            *linked,
            "-Wl,--allow-shlib-undefined",
        ],
        env=zig(),
    )
    shutil.copy(HERE / "guest/ioc.db", root / "ioc.db")
    # for the user name that libca claims
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")


def compiled(guest, source, name, options=()):
    """A program of guest/, built for a guest if it is out of date."""
    place, source = TOP / "target/cross" / guest.target / name, HERE / "guest" / source
    if not place.exists() or place.stat().st_mtime < source.stat().st_mtime:
        compiler = TOP / "target/cross" / guest.target / "cc"
        run([compiler, "-static", "-O1", *options, "-o", place, source], env=zig())
    return place


def version():
    return re.search(r'^version = "(.*)"', (TOP / "Cargo.toml").read_text(), re.M).group(1)


def initramfs(guest):
    """The compressed cpio archive that the kernel unpacks, with the binaries of dist/."""
    iocrec = TOP / "dist" / f"iocrec-{version()}-{guest.target}"
    imitation = compiled(guest, "imitation.c", guest.imitation(), guest.options)
    # one suite's busybox for all, which runs on the oldest kernel as well
    busybox = Archive("bookworm" if guest.debian != "riscv64" else "trixie", guest.debian).unpacked("busybox-static")
    shell = next(place for place in (busybox / "bin/busybox", busybox / "usr/bin/busybox") if place.exists())
    begin, middle, end = REAL if guest.real else IMITATION
    init = INIT.format(now=int(time.time()), begin=begin, middle=middle, end=end)
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work)
        for name in ("bin", "proc", "sys", "dev", "tmp"):
            (root / name).mkdir()
        for name, source in (("busybox", shell), ("iocrec", iocrec), ("imitation", imitation)):
            shutil.copy(source, root / "bin" / name)
            (root / "bin" / name).chmod(0o755)
        for applet in APPLETS:
            (root / "bin" / applet).symlink_to("busybox")
        if guest.real:
            epics(guest, root)
        (root / "init").write_text(init)
        (root / "init").chmod(0o755)
        if guest.cases:
            restricted.files(root, guest.cases, compiled(guest, "drop_capabilities.c", "without"), int(time.time()))
        if guest.service:
            shutil.rmtree(root)
            run([TOP / "packaging/deb", guest.debian])
            package = TOP / "dist" / f"iocrec_{version()}_{guest.debian}.deb"
            services.files(
                root,
                guest.service,
                Archive(guest.suite, guest.debian),
                run,
                package,
                shell,
                imitation,
                int(time.time()),
            )
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        archive = subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), cwd=root, capture_output=True, check=True
        ).stdout
    return gzip.compress(archive, 1)
