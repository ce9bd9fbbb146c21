"""The guests that cross/boot-test.py boots. To add one, add a row to GUESTS.

A row names a kernel of Debian's, the target whose binaries run on it, and the result that is expected: the tier, and
whether iocrec must refuse to place probes.
"""

import dataclasses
import pathlib

import restricted
import services


@dataclasses.dataclass
class Machine:
    """How QEMU starts a machine, and the device of its serial console."""

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
    """A kernel to boot, what runs in it, and the expected result."""

    debian: str  # Debian's name of the architecture
    suite: str
    package: str  # regular expression for the name of the kernel's package; the highest version is taken
    target: str  # whose binaries run in it
    tier: str  # the tier that iocrec must choose
    quick: bool = False  # one of the few that `make test` boots
    options: tuple = ()  # more compiler options for the imitation
    real: bool = False  # a real IOC of the suite's EPICS Base with caput; else the imitation
    unprobed: str = ""  # part of the reason why check must place no probes; empty where it must place some
    service: str = ""  # the init system that runs iocrec as a service, if any
    arguments: str = ""  # appended to the kernel's command line
    cases: tuple = ()  # restricted machines to try instead of one recording, with a clock that begins in 1970
    image: pathlib.Path = None  # the user's own kernel; else Debian's

    def imitation(self):
        """File name of its imitation."""
        return "-".join(["imitation", *self.options[1:]])


X86_64, I686 = "x86_64-unknown-linux-musl", "i686-unknown-linux-musl"
ARM64, ARM = "aarch64-unknown-linux-musl", "armv7-unknown-linux-musleabihf"
ARM6, ARM5 = "arm-unknown-linux-musleabi", "armv5te-unknown-linux-musleabi"
RISCV = "riscv64gc-unknown-linux-musl"
THUMB = ("-target", "thumb-linux-musleabihf")
# By the name of the guest. Numbers such as ".0-32" in a package's name are the kernel's ABI.
GUESTS = {
    "x86_64-5.10": Guest("amd64", "bullseye", r"linux-image-5\.10\.0-\d+-cloud-amd64", X86_64, "ring", quick=True),
    "x86_64-6.1": Guest("amd64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-amd64", X86_64, "ring", quick=True),
    "x86_64-6.12": Guest("amd64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-cloud-amd64", X86_64, "ring"),
    "i686-5.10": Guest("i386", "bullseye", r"linux-image-5\.10\.0-\d+-686", I686, "perf"),
    "arm64-5.10": Guest("arm64", "bullseye", r"linux-image-5\.10\.0-\d+-cloud-arm64", ARM64, "ring"),
    "arm64-6.12": Guest("arm64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-cloud-arm64", ARM64, "ring"),
    "armv7-5.10": Guest("armhf", "bullseye", r"linux-image-5\.10\.0-\d+-armmp", ARM, "perf"),
    "armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM, "perf", quick=True),
    "armv6-on-armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM6, "perf"),
    "armv5-on-armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM5, "perf"),
    "arm64-ioc-6.12": Guest(
        "arm64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-cloud-arm64", ARM64, "ring", real=True
    ),
    "x86_64-ioc-6.12": Guest(
        "amd64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-cloud-amd64", X86_64, "ring", real=True
    ),
    # kernels corrupt Thumb code when a probe is placed in it, so iocrec must refuse
    "thumb-6.1": Guest(
        "armhf",
        "bookworm",
        r"linux-image-6\.1\.0-\d+-armmp",
        ARM,
        "perf",
        quick=True,
        options=THUMB,
        unprobed="Thumb code",
    ),
    **{
        f"{init}-6.1": Guest("amd64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-amd64", X86_64, "ring", service=init)
        for init in services.PACKAGES
    },
    # each architecture's package, installed by its own dpkg
    "sysv-arm64-6.1": Guest("arm64", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-arm64", ARM64, "ring", service="sysv"),
    "sysv-armv7-6.1": Guest("armhf", "bookworm", r"linux-image-6\.1\.0-\d+-armmp", ARM, "perf", service="sysv"),
    # lockdown allows the highest tier, though not in the way that libbpf would take
    "lockdown-6.1": Guest(
        "amd64",
        "bookworm",
        r"linux-image-6\.1\.0-\d+-cloud-amd64",
        X86_64,
        "ring",
        quick=True,
        arguments="lockdown=confidentiality",
    ),
    "hard-6.1": Guest(
        "amd64",
        "bookworm",
        r"linux-image-6\.1\.0-\d+-cloud-amd64",
        X86_64,
        "ring",
        quick=True,
        arguments="vdso=0",
        cases=restricted.cases("ring"),
    ),
    "hard-5.10": Guest(
        "i386",
        "bullseye",
        r"linux-image-5\.10\.0-\d+-686",
        I686,
        "perf",
        arguments="vdso=0",
        cases=restricted.cases("perf"),
    ),
    "riscv64-6.12": Guest("riscv64", "trixie", r"linux-image-6\.12\.[\d+]+(deb13)?-riscv64", RISCV, "ring"),
}
