"""iocrec on restricted machines, in guests that cross/boot-test.py boots.

guest/restricted.sh runs `iocrec check` once for each case below, then records while the clock jumps from 1970 to now.
In each case iocrec must come to the highest possible tier, and give the reason against each higher tier in one line.
"""

import dataclasses
import datetime
import json
import pathlib
import re
import shutil

HERE = pathlib.Path(__file__).resolve().parent
# busybox applets in addition to those of every guest
APPLETS = ["mkdir", "touch", "umount", "unshare"]
# The guest's hardware clock starts here, as on a machine without a clock.
BEGIN = "1970-01-01T00:00:10"
# Seconds by which the guest's clock may be late: its boot and all cases, on a slow machine.
LATE = 10
# Longest pause between two puts, in seconds. The imitation puts every 0.05 s, on an emulated and maybe busy machine.
PAUSE = 2.0


@dataclasses.dataclass
class Case:
    """A restriction, and the expected report of `iocrec check`."""

    name: str
    script: str  # shell code that applies it; "$@" is the command to run
    tier: str
    reasons: tuple = ()  # parts of each reason against a higher tier
    packets: str = ""  # part of the reason against capturing packets; empty where packets must be captured
    exit_code: int = 0


def cases(best):
    """The cases of a kernel whose highest tier is `best`."""
    old = best == "perf"  # kernel 5.10 on 32-bit machines
    always = ("32-bit binary",) if old else ()
    packet = lambda name, script, *reasons, **more: Case(name, script, "packet", reasons, **more)
    high = lambda name, script: Case(name, script, best, always)
    lowered = "ulimit -S -l 0; ulimit -H -l 0; "
    return [
        high("whole", '"$@"'),
        high("no-tracefs", 'umount /sys/kernel/tracing /sys/kernel/debug; "$@"'),
        packet("no-sys", 'mount -t tmpfs none /sys; "$@"', "no /sys", "mount -t sysfs"),
        high("no-proc-sys", 'mount -t tmpfs none /proc/sys; "$@"'),
        high("read-only", 'mount -o remount,bind,ro / && ! touch /x 2>/dev/null && "$@"'),
        high("memlock-raised", lowered + '"$@"'),
        (
            packet("memlock", lowered + 'without sys_resource -- "$@"', "RLIMIT_MEMLOCK is 0 KiB", "ulimit -l")
            if old
            else high("memlock", lowered + 'without sys_resource -- "$@"')
        ),
        packet(
            "paranoid",
            'echo 3 >/proc/sys/kernel/perf_event_paranoid; without sys_admin -- "$@"',
            "perf_event_paranoid is 3",
            "CAP_SYS_ADMIN",
        ),
        (
            high("less-paranoid", 'echo 1 >/proc/sys/kernel/perf_event_paranoid; without sys_admin -- "$@"')
            if old
            else packet(
                "less-paranoid",
                'echo 1 >/proc/sys/kernel/perf_event_paranoid; without sys_admin -- "$@"',
                "CAP_SYS_ADMIN",
            )
        ),
        packet("no-bpf", 'without sys_admin bpf perfmon -- "$@"', "not allowed to use BPF", "root"),
        packet("not-root", 'without root -- "$@"', "not allowed to use BPF", "root", packets="CAP_NET_RAW"),
    ]


def files(root, tried, without, now):
    """Adds to a guest's file system what these cases need."""
    (root / "init").write_text((HERE / "guest/restricted.sh").read_text())
    (root / "init").chmod(0o755)
    root.chmod(0o755)  # for the user who is not root
    (root / "cases").write_text("".join(f"{case.name} {case.script}\n" for case in tried))
    (root / "clock").write_text(str(now))
    shutil.copy(without, root / "bin/without")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")


def wrong_in(case, place, ends):
    """The differences between a case's report and the expected one."""
    error = (place / f"{case.name}.err").read_text().strip()
    if ends.get(case.name) != str(case.exit_code):
        return [f"ended with {ends.get(case.name)}: {error}"]
    found = json.loads((place / f"{case.name}.json").read_text())
    reasons = [refused["reason"] for refused in found["refused"]]
    wrong = [f"stderr: {error!r}"] if error else []
    if found["tier"] != case.tier:
        wrong.append(f"tier {found['tier']}, not {case.tier}: {reasons}")
    # a binary without the ring tier gives a reason of its own against it
    relevant = [reason for reason in reasons if case.tier != "packet" or "32-bit binary" not in reason]
    wrong += [f"no {word!r} in {reason!r}" for reason in relevant for word in case.reasons if word not in reason]
    if case.reasons and not relevant:
        wrong.append("no reason")
    wrong += [f"more than one line: {reason!r}" for reason in [*reasons, found["no_packets"] or ""] if "\n" in reason]
    if case.packets not in (found["no_packets"] or "") or bool(case.packets) == found["packets"]:
        wrong.append(f"packets: {found['no_packets']!r}")
    return wrong


def seconds(time):
    """A time as iocreplay prints it, in seconds since 1970."""
    # a datetime takes six of the nine digits
    return datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", time)).timestamp()


def wrong_times(console, puts):
    """The errors in a log that was recorded while the clock jumped."""
    before, after = (int(re.search(rf"^{word} (\d+)$", console, re.M).group(1)) for word in ("BEFORE", "SET"))
    wrong = []
    if before > 86400:
        wrong.append(f"the guest's clock did not begin in 1970 but at {before}")
    values = [put["requested"] for put in puts]
    if len(values) < 20 or values != list(range(int(values[0]), int(values[0]) + len(values))):
        wrong.append(f"{len(values)} puts, not each once and in order: {values}")
    times = [seconds(put["time"]) for put in puts]
    steps = [
        (puts[at]["time"], puts[at + 1]["time"])
        for at in range(len(times) - 1)
        if not 0 <= times[at + 1] - times[at] < PAUSE
    ]
    if steps:
        wrong.append(f"times with a gap: {steps[:3]}")
    if times and not (after - 2 * LATE < times[0] < after < times[-1] < after + LATE):
        wrong.append(f"puts from {times[0]} to {times[-1]}, and the clock was set to {after}")
    return wrong


def examine(tried, console, place, replay):
    """The differences between a guest's results and the expected ones (empty if there are none), and a summary."""
    ends = dict(re.findall(r"^EXIT (\S+) (\d+)$", console, re.M))
    wrong = [f"{case.name}: {what}" for case in tried for what in wrong_in(case, place, ends)]
    for name in ("record", "ioc"):
        if ends.get(name) != "0":
            wrong.append(f"{name} ended with {ends.get(name)}")
    puts = [json.loads(line) for line in replay(["puts", "--all", "--format", "jsonl"], place / "log").splitlines()]
    wrong += wrong_times(console, puts)
    release, up = re.search(r"^BEGIN (\S+) up (\S+)$", console, re.M).groups()
    line = (
        f"{release}: {len(tried)} restrictions; {len(puts)} puts while the clock jumped from 1970 to now; "
        f"kernel up after {up} s"
    )
    return "; ".join(wrong), line
