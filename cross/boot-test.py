#!/usr/bin/env python3
"""Boots Debian kernels under QEMU and runs the static binaries inside.

In each guest of guests.py, `iocrec check` and `iocrec record` watch an IOC: a real one with Debian's epics-base where
there is one, else an imitation (guest/imitation.c). The guest sends the report of check, the exit codes (of the
imitation, too, which verifies its own results) and the log over its serial console. Out here, examine.py reads the
log with iocreplay and compares everything with what the guest's row expects.

usage: cross/boot-test.py [--list] [--build] [--keep DIR] [--kernel IMAGE [--tier TIER]] quick | all | GUEST...

--build only brings the binaries of these guests up to date.

--kernel boots a kernel of your own in place of Debian's: it needs initramfs, proc, devtmpfs, tmpfs and the serial
console. --tier names the tier that it must come to, if that differs from the guest's.

Does not need root. Kernels and busybox come from Debian's archives through an apt configuration of their own, and
stay in ~/.cache/iocrec (or $IOCREC_CACHE). Out-of-date binaries are built by cross/build, while guests whose binaries
are ready boot.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import restricted
from binaries import Builds
from debian import Archive, fail, run
from examine import Wrong, examine
from guests import GUESTS, MACHINES
from initramfs import initramfs

TOP = pathlib.Path(__file__).resolve().parent.parent
# Seconds that a guest may take, beside another one. A boot takes 3 to 25 s on an idle machine, and much longer on a
# busy one; the guest with the most to do took 207 s beside another.
LIMIT = 480
# A service guest runs four recorders one after the other, and dpkg.
SERVICE_LIMIT = 960
# How many guests run at a time: half of their time they wait, and an emulated processor takes one of this machine.
AT_A_TIME = max(1, min(4, os.cpu_count() or 1))
# What guests share is fetched, unpacked and compiled by one at a time.
PREPARING = threading.Lock()


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


def boot(guest, keep):
    """Runs a guest to its end; returns the text of its console."""
    machine = MACHINES[guest.debian]
    with tempfile.NamedTemporaryFile(suffix=".cpio.gz") as files:
        with PREPARING:
            image = kernel(guest)
            files.write(initramfs(guest))
        files.flush()
        command = [
            *machine.qemu,
            "-accel",
            "tcg",
            "-m",
            "1024" if guest.real or guest.service else "512",
            "-smp",
            "2",
            "-display",
            "none",
            "-monitor",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
            "-nodefaults",
            "-kernel",
            image,
            "-initrd",
            files.name,
            "-append",
            f"console={machine.console} panic=-1 quiet {guest.arguments}".strip(),
        ]
        if guest.cases:
            command += ["-rtc", f"base={restricted.BEGIN}"]
        if shutil.which(command[0]) is None:
            fail(f"{command[0]} is missing; run make test-kernels as root")
        text = console_of(command, SERVICE_LIMIT if guest.service else LIMIT)
    if keep:
        (keep / "console.txt").write_text(text)
    return text


def console_of(command, limit):
    """The console's text until the guest has sent everything, or until `limit` seconds have passed.

    Not every kernel can power its machine off, so QEMU is killed after the last line.
    """
    lines = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as machine:
        timer = threading.Timer(limit, machine.kill)
        timer.start()
        for line in machine.stdout:
            lines.append(line.decode(errors="replace").replace("\r", ""))
            if lines[-1] == "END\n":
                machine.kill()
        if not timer.is_alive():
            lines.append(f"\nno end within {limit} s")
        timer.cancel()
    return "".join(lines)


def tried(name, guest, builds, keep):
    """Boots a guest, and prints what came of it in one line. Returns whether it passed."""
    builds.wait(guest.target)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        place = pathlib.Path(work)
        if keep:
            place = keep / name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
        try:
            said, passed = f"ok: {examine(guest, boot(guest, keep and place), place)}", True
        except Wrong as wrong:
            said, passed = f"FAILED: {wrong}", False
        print(f"{name}: {said}; {time.monotonic() - begin:.0f} s", flush=True)
        return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("guests", nargs="*", help="quick, all, or names")
    parser.add_argument("--list", action="store_true", help="print the guests")
    parser.add_argument("--build", action="store_true", help="only build what these guests need")
    parser.add_argument("--keep", type=pathlib.Path, help="keep each guest's console and files below this directory")
    parser.add_argument("--kernel", type=pathlib.Path, metavar="IMAGE", help="boot this kernel in place of Debian's")
    parser.add_argument("--tier", choices=["ring", "perf", "packet"], help="the tier that iocrec must come to")
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
    guests = {
        name: dataclasses.replace(GUESTS[name], image=arguments.kernel, tier=arguments.tier or GUESTS[name].tier)
        for name in wanted
    }
    # the guests of one target follow each other, so that the next has time to be built
    targets = list(dict.fromkeys(guest.target for guest in guests.values()))
    guests = dict(sorted(guests.items(), key=lambda item: targets.index(item[1].target)))
    builds = Builds(guests.values())
    if arguments.build:
        for target in targets:
            builds.wait(target)
        return 0
    # The reader of this machine, the one that the tests have built: these logs are small.
    if "IOCREC_READER" not in os.environ:
        run(
            [TOP / "scripts/cargo", "build", "--locked", "--package", "iocreplay", "--bin", "iocreplay"],
            cwd=TOP,
            env=dict(os.environ, CARGO_TARGET_DIR=str(TOP / "target")),
        )
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(tried, name, guest, builds, arguments.keep) for name, guest in guests.items()]
        failed = sum(not one.result() for one in concurrent.futures.as_completed(running))
    print(f"boot-test: {len(guests) - failed} of {len(guests)} guests passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
