#!/usr/bin/env python3
"""Boots Debian kernels under QEMU and runs the static binaries inside.

In each guest an IOC runs while `iocrec check` and `iocrec record` look at it: an imitation of one
(guest/imitation.c) where none can be had, else a real one of Debian's epics-base. What check said, whether the
imitation went on computing right, and the log come out over the serial console; the log is read with iocreplay
here, outside.

usage: cross/boot-test.py [--list] [--keep DIR] [--kernel IMAGE [--tier TIER]] quick | all | GUEST...

With --kernel a guest boots a kernel of your own in place of Debian's: any that has what its /init needs (initramfs,
proc, devtmpfs, tmpfs and the serial console). --tier says which tier it must come to, where that is not the guest's.

Needs root for nothing. Kernels and busybox come from Debian's archives, of whatever architecture, by an apt
configuration of their own, and are kept in ~/.cache/iocrec (or $IOCREC_CACHE). The binaries are built first where
they are not up to date (cross/build).
"""
import argparse
import base64
import dataclasses
import functools
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import services
import restricted

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
CACHE = pathlib.Path(os.environ.get("IOCREC_CACHE") or pathlib.Path.home() / ".cache/iocrec")
APPLETS = "sh hostname mount ifconfig date cut uname sleep tar gzip base64 poweroff echo grep cat seq".split()
# A boot takes 3 to 25 s on a quiet machine; these machines are not always quiet.
LIMIT = 240
# With a service there are four recorders one after the other, and dpkg.
SERVICE_LIMIT = 480
# How long the imitation is recorded, in seconds of the guest.
RECORDED = 4


@dataclasses.dataclass
class Machine:
    """How QEMU shows a machine, and where its kernel says something."""
    qemu: list
    console: str


X86 = ["-M", "q35", "-cpu", "max"]
MACHINES = {
    "amd64": Machine(["qemu-system-x86_64", *X86], "ttyS0"),
    "i386": Machine(["qemu-system-i386", *X86], "ttyS0"),
    "arm64": Machine(["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57"], "ttyAMA0"),
    "armhf": Machine(["qemu-system-arm", "-M", "virt,highmem=off", "-cpu", "cortex-a15"], "ttyAMA0"),
    "riscv64": Machine(["qemu-system-riscv64", "-M", "virt"], "ttyS0"),
}


@dataclasses.dataclass
class Guest:
    """A kernel to boot, what runs in it, and what must be seen."""
    debian: str  # Debian's name of the architecture
    suite: str
    package: str  # regular expression for the kernel package's name; the highest version is taken
    target: str  # whose binaries run in it
    tier: str  # the tier that iocrec must choose
    quick: bool = False
    options: tuple = ()  # more compiler options for the imitation
    real: bool = False  # a real IOC, of the suite's EPICS Base, and caput; else the imitation
    unprobed: str = ""  # why check must say that it puts no probes; empty where it must
    service: str = ""  # the init system that runs iocrec as a service, if one does
    arguments: str = ""  # more for the kernel's command line
    cases: tuple = ()  # surroundings to be tried instead of one recording, on a machine whose clock begins in 1970
    image: pathlib.Path = None  # a kernel of the user's own; else Debian's

    def imitation(self):
        """File name of the imitation for it."""
        return "-".join(["imitation", *self.options[1:]])


X86_64, I686 = "x86_64-unknown-linux-musl", "i686-unknown-linux-musl"
ARM64, ARM = "aarch64-unknown-linux-musl", "armv7-unknown-linux-musleabihf"
ARM6, ARM5 = "arm-unknown-linux-musleabi", "armv5te-unknown-linux-musleabi"
RISCV = "riscv64gc-unknown-linux-musl"
THUMB = ("-target", "thumb-linux-musleabihf")
# ".0-32" and the like: the kernel's ABI in the package's name
GUESTS = {
    "x86_64-5.10": Guest("amd64", "bullseye", r"linux-image-5\.10\.0-\d+-cloud-amd64", X86_64, "ring"),
    "x86_64-6.1": Guest("amd64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-amd64", X86_64, "ring", quick=True),
    "x86_64-6.12": Guest("amd64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-cloud-amd64", X86_64, "ring"),
    "i686-5.10": Guest("i386", "bullseye", r"linux-image-5\.10\.0-\d+-686", I686, "perf", quick=True),
    "arm64-5.10": Guest("arm64", "bullseye", r"linux-image-5\.10\.0-\d+-cloud-arm64", ARM64, "ring"),
    "arm64-6.12": Guest("arm64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-cloud-arm64", ARM64, "ring"),
    "armv7-5.10": Guest("armhf", "bullseye", r"linux-image-5\.10\.0-\d+-armmp", ARM, "perf"),
    "armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM, "perf", quick=True),
    "armv6-on-armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM6, "perf"),
    "armv5-on-armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM5, "perf"),
    "arm64-ioc-6.12": Guest("arm64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-cloud-arm64", ARM64, "ring", real=True),
    # kernels overwrite Thumb code when they are asked to put a probe into it: it must be refused by us
    "thumb-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM, "perf", quick=True,
                       options=THUMB, unprobed="Thumb code"),
    **{f"{init}-6.1": Guest("amd64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-amd64", X86_64, "ring", service=init)
       for init in services.PACKAGES},
    # each architecture's package, installed by its own dpkg
    "sysv-arm64-6.1": Guest("arm64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-arm64", ARM64, "ring", service="sysv"),
    "sysv-armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM, "perf", service="sysv"),
    # the highest tier is possible under lockdown, but not by the way that libbpf would take
    "lockdown-6.1": Guest("amd64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-amd64", X86_64, "ring",
                          arguments="lockdown=confidentiality"),
    "hard-6.1": Guest("amd64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-amd64", X86_64, "ring", quick=True,
                      arguments="vdso=0", cases=restricted.cases("ring")),
    "hard-5.10": Guest("i386", "bullseye", r"linux-image-5\.10\.0-\d+-686", I686, "perf", arguments="vdso=0",
                       cases=restricted.cases("perf")),
    "riscv64-6.12": Guest("riscv64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-riscv64", RISCV, "ring"),
}

INIT = """#!/bin/sh
# Run by the kernel as its first process.
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
# some machines have no clock, and begin in 1970
date -s @{now} >/dev/null
echo "CLOCK {now} $(cut -d ' ' -f 1 /proc/uptime)"
echo 3 >/proc/sys/kernel/printk
echo "BEGIN $(uname -r) up $(cut -d ' ' -f 1 /proc/uptime)"
echo "LOCKDOWN $(cat /sys/kernel/security/lockdown 2>/dev/null)"
{begin}
iocrec check --json >/tmp/check.json 2>/tmp/check.err
echo "EXIT check $?"
echo "START $(cut -d ' ' -f 1 /proc/uptime)"
iocrec record --dir /tmp/log 2>/tmp/record.err &
recorder=$!
# where a machine is emulated and not alone, its probes may take it many seconds
for second in $(seq 60); do iocrec status --dir /tmp/log --json 2>/dev/null | grep -q '"iocs":\\[{{' && break; sleep 1; done
{middle}
echo "RESIDENT $(grep VmRSS /proc/$recorder/status | grep -o '[0-9]*')"
kill $recorder
wait $recorder
echo "EXIT record $?"
{end}
wait $ioc
echo "EXIT ioc $?"
echo FILES
tar -C /tmp -c check.json check.err record.err log | gzip | base64
echo END
poweroff -f
"""

# What is run in the guest before, while and after the recorder runs, for the imitation and for a real IOC.
IMITATION = ("IOC=guest imitation 600 & ioc=$!; sleep 1", f"sleep {RECORDED}", "kill $ioc")
REAL = ("""export IOC=guest EPICS_CA_AUTO_ADDR_LIST=NO EPICS_CA_ADDR_LIST=127.0.0.1 EPICS_CAS_INTF_ADDR_LIST=127.0.0.1
export EPICS_CAS_BEACON_ADDR_LIST=127.0.0.1 EPICS_CAS_AUTO_BEACON_ADDR_LIST=NO
# its commands come from here; it ends when they end
{ until [ -e /tmp/over ]; do sleep 1; done; } | own_ioc /usr/share/epics/dbd /ioc.db >/tmp/ioc.out 2>&1 & ioc=$!
for second in $(seq 60); do grep -q ready /tmp/ioc.out && break; sleep 1; done
cat /tmp/ioc.out""",
        """sleep 1
for number in 1 2 3 4 5; do caput -w 20 GUEST:SP $number; done
caput -w 20 -c GUEST:SP 6
sleep 2""",
        ": >/tmp/over")


def fail(message):
    raise SystemExit(f"cross/boot-test.py: {message}")


def run(command, **options):
    """Runs a command; what it says goes into the error."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-4:]
        fail(f"{' '.join(map(str, command[:4]))} ...: {'; '.join(said)}")
    return done.stdout


class Archive:
    """Debian's packages of one suite and architecture, fetched and unpacked without touching the host's own."""

    def __init__(self, suite, debian):
        self.root = CACHE / "apt" / f"{suite}-{debian}"
        self.configuration = self.root / "apt.conf"
        if self.configuration.exists():
            return
        for part in ("lists/partial", "archives/partial", "sources.list.d"):
            (self.root / part).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        # the mirror that this machine takes its own Debian packages from
        targets = run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(SUITE)", "Created-By: Packages"])
        mirror = next((line.split()[1] for line in targets.splitlines()
                       if line.startswith("Debian ") and "security" not in line and "updates" not in line), None)
        if mirror is None:
            fail("this machine's apt knows no Debian archive; run apt-get update")
        keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
        (self.root / "sources.list").write_text(f"deb [signed-by={keys}] {mirror} {suite} main\n")
        writing = self.root / "apt.conf.new"
        writing.write_text(f'''
APT::Architecture "{debian}";
APT::Architectures "{debian}";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Dir::State::status "{self.root}/status";
Dir::State::lists "{self.root}/lists";
Dir::Cache "{self.root}";
Dir::Etc::sourcelist "{self.root}/sources.list";
Dir::Etc::sourceparts "{self.root}/sources.list.d";
''')
        run(["apt-get", "-c", writing, "-qq", "update"])
        writing.rename(self.configuration)

    def names(self, pattern):
        """Packages whose names match, the highest version last."""
        every = run(["apt-cache", "-c", self.configuration, "pkgnames", "linux-image-"]).split()
        found = [name for name in every if re.fullmatch(pattern, name)]
        return sorted(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])

    def unpacked(self, package):
        """A directory with a package's files."""
        place = self.root / "unpacked" / package
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=self.root) as work:
                run(["apt-get", "-c", self.configuration, "-qq", "-o", "APT::Sandbox::User=root", "download", package], cwd=work)
                (fetched,) = pathlib.Path(work).glob("*.deb")
                run(["dpkg-deb", "-x", fetched, f"{work}/files"])
                place.parent.mkdir(exist_ok=True)
                os.rename(f"{work}/files", place)
        return place


def kernel(guest):
    """The kernel's image."""
    if guest.image:
        return guest.image
    archive = Archive(guest.suite, guest.debian)
    names = archive.names(guest.package)
    if not names:
        fail(f"Debian {guest.suite} for {guest.debian} has no package {guest.package}")
    boot = archive.unpacked(names[-1]) / "boot"
    (image,) = boot.glob("vmlinu*")
    return image


def zig():
    """The environment in which cross/build's compilers run."""
    cache = str(TOP / "target/cross/zig-cache")
    return dict(os.environ, PATH=f"{TOP}/target/cross/zig/bin:{os.environ['PATH']}", ZIG_GLOBAL_CACHE_DIR=cache,
                ZIG_LOCAL_CACHE_DIR=cache)


def epics(guest, root):
    """Puts EPICS Base of the guest's Debian into a file system, and an IOC built with it."""
    archive = Archive(guest.suite, guest.debian)
    wanted = run(["apt-get", "-c", archive.configuration, "install", "-s", "--no-install-recommends", "epics-base"])
    for package in re.findall("^Inst (\\S+)", wanted, re.M):
        # symbolic links of directories (/lib) stay what they are
        shutil.copytree(archive.unpacked(package), root, symlinks=True, dirs_exist_ok=True)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    headers = [archive.unpacked(package) / "usr/include/epics" for package in ("epics-dev", "libca-dev", "libcom-dev")]
    includes = [f"-I{place}" for top in headers for place in (top, top / "os/Linux", top / "compiler/gcc")]
    (libraries,) = root.glob("usr/lib/*-linux-gnu")
    linked = [next(libraries.glob(f"lib{name}.so.*")) for name in ("dbCore", "dbRecStd", "ca", "Com")]
    run([TOP / "target/cross/zig/bin/python", "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.36", "-O1", "-o",
         root / "bin/own_ioc", TOP / "tests/rig/own_ioc.c", *includes, "-Wl,--no-as-needed", *linked, "-Wl,--allow-shlib-undefined"], env=zig())
    shutil.copy(HERE / "guest/ioc.db", root / "ioc.db")
    # who the client's library says that its user is
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")


def binaries(guest):
    """iocrec and the imitation, brought up to date where they are not."""
    iocrec = TOP / "dist" / f"iocrec-{version()}-{guest.target}"
    built(guest.target)
    return iocrec, compiled(guest, "imitation.c", guest.imitation(), guest.options)


def compiled(guest, source, name, options=()):
    """A program of guest/, built for a guest if it is not up to date."""
    place, source = TOP / "target/cross" / guest.target / name, HERE / "guest" / source
    if not place.exists() or place.stat().st_mtime < source.stat().st_mtime:
        compiler = TOP / "target/cross" / guest.target / "cc"
        run([compiler, "-static", "-O1", *options, "-o", place, source], env=zig())
    return place


@functools.cache
def built(target):
    """Builds the binaries of a target, once."""
    print(run([HERE / "build", target]).strip(), flush=True)


def version():
    return re.search(r'^version = "(.*)"', (TOP / "Cargo.toml").read_text(), re.M).group(1)


def initramfs(guest):
    """A file system of busybox, iocrec and the imitation, as the kernel wants it."""
    iocrec, imitation = binaries(guest)
    # busybox of the same suite: the guest's first process must run on the oldest kernel too
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
            services.files(root, guest.service, Archive(guest.suite, guest.debian), run, package, shell, imitation, int(time.time()))
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        archive = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), cwd=root,
                                 capture_output=True, check=True).stdout
    return gzip.compress(archive, 1)


def boot(guest, keep):
    """Runs a guest to its end; what it said on its console."""
    machine = MACHINES[guest.debian]
    image = kernel(guest)
    with tempfile.NamedTemporaryFile(suffix=".cpio.gz") as files:
        files.write(initramfs(guest))
        files.flush()
        command = [*machine.qemu, "-accel", "tcg", "-m", "1024" if guest.real or guest.service else "512", "-smp", "2", "-display", "none", "-monitor", "none",
                   "-serial", "stdio", "-no-reboot", "-nodefaults", "-kernel", image, "-initrd", files.name,
                   "-append", f"console={machine.console} panic=-1 quiet {guest.arguments}".strip()]
        if guest.cases:
            command += ["-rtc", f"base={restricted.BEGIN}"]
        if shutil.which(command[0]) is None:
            fail(f"{command[0]} is missing; run make test-kernels as root")
        text = console_of(command, SERVICE_LIMIT if guest.service else LIMIT)
    if keep:
        (keep / "console.txt").write_text(text)
    return text


def console_of(command, most):
    """What a guest says until it has sent all, or for as long as it may take. Not every kernel can switch its machine off."""
    said = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as machine:
        limit = threading.Timer(most, machine.kill)
        limit.start()
        for line in machine.stdout:
            said.append(line.decode(errors="replace").replace("\r", ""))
            if said[-1] == "END\n":
                machine.kill()
        if not limit.is_alive():
            said.append(f"\nno end within {most} s")
        limit.cancel()
    return "".join(said)


class Wrong(Exception):
    """What was seen is not what must be seen."""


def files_of(console, into):
    """Unpacks what the guest sent."""
    found = re.search(r"^FILES\n(.*?)^END$", console, re.M | re.S)
    if not found:
        raise Wrong("the guest did not come to its end: " + " | ".join(console.strip().splitlines()[-4:]))
    data = base64.b64decode("".join(found.group(1).split()))
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as archive:
        archive.extractall(into, filter="data")


def replay(arguments, log):
    """What iocreplay, built for this machine, says."""
    return run([TOP / "target/release/iocreplay", *arguments, log])


def right(wrong, line):
    """The line for people, unless something is wrong."""
    if wrong:
        raise Wrong(wrong)
    return line


def examine(guest, console, place):
    """Compares what a guest sent with what it must have sent.

    Returns a line of numbers for people."""
    files_of(console, place)
    if guest.service:
        return right(*services.examine(guest.service, console, place, replay))
    if guest.cases:
        return right(*restricted.examine(guest.cases, console, place, replay))
    if "lockdown=" in guest.arguments and f"[{guest.arguments.partition('=')[2]}]" not in console:
        raise Wrong("the kernel is not locked down")
    ends = dict(re.findall(r"^EXIT (\w+) (\d+)$", console, re.M))
    errors = " ".join((place / f"{name}.err").read_text().strip() for name in ("check", "record"))
    if ends != {"check": "0", "record": "0", "ioc": "0"}:
        raise Wrong(f"ended with {ends}; {errors}; " + " ".join(re.findall("^imitation:.*", console, re.M)))
    check = json.loads((place / "check.json").read_text())
    tier = check["tier"] if isinstance(check["tier"], str) else check["tier"].get("tier")
    if tier != guest.tier:
        raise Wrong(f"tier {tier}, not {guest.tier}: {check}")
    (ioc,) = [ioc for ioc in check["iocs"] if ioc["name"] == "guest"]
    reasons = " ".join(map(str, ioc["not_probed"]))
    if guest.unprobed and (ioc["probes"] or guest.unprobed not in reasons):
        raise Wrong(f"check says that it probes {ioc['probes']}, and does not say {guest.unprobed!r}: {reasons}")
    if guest.unprobed and not re.search(f"guest .* is not probed: .*{guest.unprobed}", errors):
        raise Wrong(f"record does not say that it is not probed: {errors}")
    if guest.real:
        return examine_real(console, place, ioc)
    records = [json.loads(line) for line in replay(["records", "--json"], place / "log").splitlines()]
    names = {record["record"] for record in records}
    if names != {f"GUEST:R{number}" for number in range(10)}:
        raise Wrong(f"records {sorted(names)}")
    puts = [json.loads(line) for line in replay(["puts", "--all", "--format", "jsonl"], place / "log").splitlines()]
    tree = replay(["traces"], place / "log")
    whole = len(re.findall(r"GUEST:R9 +FLNK", tree))
    if guest.unprobed or tier == "packet":
        if puts or whole:
            raise Wrong("hits where no probes should be")
    else:
        # 20 a second; emulated machines are slow
        if len(puts) < 10 or whole < 10:
            raise Wrong(f"{len(puts)} puts and {whole} whole chains in {RECORDED} s; {errors}")
        # the recorder may have been ended in the midst of the last one
        for put in puts[:-1] if puts[-1]["new"] is None else puts:
            if put["record"] != "GUEST:R0" or put["new"] != put["requested"] + 1:
                raise Wrong(f"a put that was none: {put}")
    release, up = re.search(r"^BEGIN (\S+) up (\S+)$", console, re.M).groups()
    first = f", first hit {first_hit(console, puts):.2f} s after the recorder's start" if puts else ""
    return f"{release}, tier {tier}, {len(puts)} puts, {whole} chains of 10; {resident(console)}; kernel up after {up} s{first}"


def examine_real(console, place, ioc):
    """What a real IOC and caput must have left in the log."""
    puts = [json.loads(line) for line in replay(["puts", "--format", "jsonl"], place / "log").splitlines()]
    seen = [(put["pv"], put["old"], put["new"], put["via"], put["user"], put["client_host"], put["status"], put["source"]) for put in puts]
    expected = [("GUEST:SP", max(number - 1, 1), number, "ca_write" if number < 6 else "ca_write_notify", "root", "guest", "ok", "both")
                for number in range(1, 7)]
    if seen != expected:
        raise Wrong(f"puts {seen}, not {expected}")
    whole = len(re.findall(r"GUEST:DOUBLE .*\n +GUEST:TEXT ", replay(["traces"], place / "log")))
    if whole != len(puts):
        raise Wrong(f"{whole} whole chains of {len(puts)}")
    release, up = re.search(r"^BEGIN (\S+) up (\S+)$", console, re.M).groups()
    return f"{release}, EPICS Base {ioc['base_version']}, 6 puts by caput with their chains; {resident(console)}; kernel up after {up} s"


def resident(console):
    """The recorder's memory, near the end of its work."""
    found = re.search(r"^RESIDENT (\d+)$", console, re.M)
    if not found:
        raise Wrong("the recorder's memory was not seen: did it end early?")
    return f"{int(found.group(1)) / 1024:.1f} MiB resident"


def first_hit(console, puts):
    """Seconds from the recorder's start to its first put."""
    clock, at = map(float, re.search(r"\bCLOCK (\S+) (\S+)$", console, re.M).groups())
    (start,) = map(float, re.findall(r"^START (\S+)$", console, re.M))
    return services.moment(puts[0]["time"]).timestamp() - clock + at - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("guests", nargs="*", help="quick, all, or names")
    parser.add_argument("--list", action="store_true", help="print the guests")
    parser.add_argument("--keep", type=pathlib.Path, help="keep each guest's console and files below this directory")
    parser.add_argument("--kernel", type=pathlib.Path, metavar="IMAGE", help="boot this kernel in place of Debian's")
    parser.add_argument("--tier", choices=["ring", "perf", "packet"], help="the tier that it must come to")
    arguments = parser.parse_args()
    if arguments.kernel and not arguments.kernel.is_file():
        fail(f"there is no kernel {arguments.kernel}")
    if arguments.list or not arguments.guests:
        for name, guest in GUESTS.items():
            print(f"{name:20} {guest.target:32} {'quick' if guest.quick else ''}")
        return 0 if arguments.list else 2
    wanted = []
    for word in arguments.guests:
        if word in ("quick", "all"):
            wanted += [name for name, guest in GUESTS.items() if guest.quick or word == "all"]
        elif word in GUESTS:
            wanted.append(word)
        else:
            fail(f"no guest {word}; there are: {', '.join(GUESTS)}")
    guests = {name: dataclasses.replace(GUESTS[name], image=arguments.kernel, tier=arguments.tier or GUESTS[name].tier)
              for name in wanted}
    # the reader of this machine, which is brought up to date where it is not
    run([TOP / "scripts/cargo", "build", "--release", "--locked", "--package", "iocreplay"], cwd=TOP,
        env=dict(os.environ, CARGO_TARGET_DIR=str(TOP / "target")))
    failed = 0
    for name, guest in guests.items():
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as work:
            place = pathlib.Path(work)
            if arguments.keep:
                place = arguments.keep / name
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
            try:
                said = examine(guest, boot(guest, arguments.keep and place), place)
                print(f"{name}: ok: {said}; {time.monotonic() - begin:.0f} s", flush=True)
            except Wrong as wrong:
                failed += 1
                print(f"{name}: FAILED: {wrong}; {time.monotonic() - begin:.0f} s", flush=True)
    print(f"boot-test: {len(guests) - failed} of {len(guests)} guests are as they must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
