"""Compares what a guest sent with what its row in guests.py expects."""

import base64
import gzip
import io
import json
import os
import pathlib
import re
import tarfile

import restricted
import services
from debian import run
from initramfs import RECORDED

TOP = pathlib.Path(__file__).resolve().parent.parent


class Wrong(Exception):
    """The guest's result differs from the expected one."""


def files_of(console, into):
    """Unpacks the files that the guest sent."""
    found = re.search(r"^FILES\n(.*?)^END$", console, re.M | re.S)
    if not found:
        raise Wrong("the guest did not finish: " + " | ".join(console.strip().splitlines()[-4:]))
    data = base64.b64decode("".join(found.group(1).split()))
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as archive:
        archive.extractall(into, filter="data")


def replay(arguments, log):
    """Output of this machine's own iocreplay: of the one that cross/boot-test.py builds, or of a built one."""
    reader = os.environ.get("IOCREC_READER") or TOP / "target/debug/iocreplay"
    return run([reader, *arguments, log])


def verdict(wrong, line):
    """Returns the summary, or raises Wrong with the differences."""
    if wrong:
        raise Wrong(wrong)
    return line


def examine(guest, console, place):
    """Raises Wrong where the result differs from the expected one; else returns a summary of one line."""
    files_of(console, place)
    if guest.service:
        return verdict(*services.examine(guest.service, console, place, replay))
    if guest.cases:
        return verdict(*restricted.examine(guest.cases, console, place, replay))
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
    if tier == "ring" and check["no_filter"]:
        raise Wrong(f"the filter of the ring tier was refused: {check['no_filter']}")
    # it needs a helper that lockdown forbids
    if tier == "ring" and ("lockdown=" in guest.arguments) != bool(check["no_connects"]):
        raise Wrong(f"the processes that connect: {check['no_connects'] or 'told'}")
    (ioc,) = [ioc for ioc in check["iocs"] if ioc["name"] == "guest"]
    reasons = " ".join(map(str, ioc["not_probed"]))
    if guest.unprobed and (ioc["probes"] or guest.unprobed not in reasons):
        raise Wrong(f"check would probe {ioc['probes']}, and does not give the reason {guest.unprobed!r}: {reasons}")
    if guest.unprobed and not re.search(f"guest .* is not probed: .*{guest.unprobed}", errors):
        raise Wrong(f"record does not report that the IOC is not probed: {errors}")
    if guest.real:
        return examine_real(console, place, ioc)
    of_guest = ["--ioc", "guest"]
    records = [json.loads(line) for line in replay(["records", "--json", *of_guest], place / "log").splitlines()]
    names = {record["record"] for record in records}
    if names != {f"GUEST:R{number}" for number in range(10)}:
        raise Wrong(f"records {sorted(names)}")
    puts = [
        json.loads(line)
        for line in replay(["puts", "--all", "--format", "jsonl", *of_guest], place / "log").splitlines()
    ]
    tree = replay(["traces", *of_guest], place / "log")
    whole = len(re.findall(r"GUEST:R9 +FLNK", tree))
    if guest.unprobed or tier == "packet":
        if puts or whole:
            raise Wrong("hits although no probes were expected")
    else:
        # the imitation makes 20 a second; an emulated machine is slow
        if len(puts) < 10 or whole < 10:
            raise Wrong(f"{len(puts)} puts and {whole} whole chains in {RECORDED} s; {errors}")
        # the recording may end in the middle of the last one
        wrong = [put for put in puts if not is_right(put) and not (put is puts[-1] and is_in_doubt(put))]
        losses = losses_of_hits(place) if wrong else []
        for put in wrong:
            if not is_in_doubt(put) or not is_within(services.moment(put["time"]).timestamp(), losses):
                raise Wrong(f"a put that the imitation did not make (number {puts.index(put)} of {len(puts)}): {put}")
    used(place)
    end = deaths(place, check)
    lines = printed(place) if puts and "write: left out" not in reasons else "no"
    written = writes(place, errors)
    release, up = re.search(r"^BEGIN (\S+) up (\S+)$", console, re.M).groups()
    first = f", first hit {first_hit(console, puts):.2f} s after the recorder's start" if puts else ""
    return (
        f"{release}, tier {tier}, {len(puts)} puts, {whole} chains of 10, {lines} lines printed, {written}; {end}; "
        f"{resident(console)}; kernel up after {up} s{first}"
    )


def is_right(put):
    """Whether a put is one that the imitation made, with the value that it left."""
    return put["record"] == "GUEST:R0" and put["requested"] is not None and put["new"] == put["requested"] + 1


def is_in_doubt(put):
    """Whether a put is said to have left a value that is not certain, or not known."""
    return put["record"] == "GUEST:R0" and (put["new"] is None or put["inexact"])


def losses_of_hits(place):
    """From when to when hits were lost, as the log tells, in seconds since 1970."""
    lines = map(json.loads, replay(["verify", "--format", "jsonl"], place / "log").splitlines())
    losses = [line for line in lines if line["what"] == "loss" and line["source"] == "hits"]
    return [[services.moment(line[end]).timestamp() for end in ("from", "to")] for line in losses]


def is_within(time, losses):
    """Whether hits of a put at this time may be among those that were lost."""
    return any(begin - 1 <= time <= end for begin, end in losses)


def used(place):
    """What the imitation used: one thread that sleeps 50 ms between its turns, and opens nothing."""
    beats = replay(["health", "--format", "jsonl", "--ioc", "guest"], place / "log").splitlines()
    beats = [json.loads(line) for line in beats]
    seconds = sum(beat["seconds"] for beat in beats)
    turns = sum(of["switches"] for beat in beats for of in beat["most"])
    threads = {of["thread"] for beat in beats for of in beat["most"]}
    shares = [beat["cpu_percent"] for beat in beats]
    if seconds < RECORDED / 2 or any(not share for share in shares):
        raise Wrong(f"{seconds} of {RECORDED} s of the processor's use are known: {beats}")
    if threads != {"imitation"} or not 2 < turns / seconds < 60:
        raise Wrong(f"threads {threads} with {turns} turns in {seconds} s: {beats}")
    if {(beat["threads"], beat["descriptors"]) for beat in beats} != {(1, 3)}:
        raise Wrong(f"not always one thread and three descriptors: {beats}")


def deaths(place, check):
    """How the two ended that process 1 has killed and made crash: the signal, and what `check` promises of each."""
    iocs = [json.loads(line) for line in replay(["iocs", "--json"], place / "log").splitlines()]
    missing = [reason for reason in check["no_deaths"] if not reason.startswith("kills for lack of memory")]
    # where the kernel does not say that it killed for lack of memory, that is never ruled out
    or_kernel = " or by the kernel for lack of memory" if len(missing) < len(check["no_deaths"]) else ""
    lacks = " ".join(reason for reason in missing if reason.startswith("crashes are told without"))
    # where nothing is told but the wait status, that is a reason of its own
    told = "?" if len(missing) > bool(lacks) else ""
    words = [(r" at address 0x1230", "address"), (" in fall", "place in the code"), (", thread imitation", "thread")]
    crash = "".join(f"({word}){told}" for word, part in words if part not in lacks)
    expected = {
        "victim": rf"killed by SIGKILL(, sent by pid 1 \(\w+, user 0\){or_kernel})" + told,
        # an address of a record that it processed before may be left on its stack
        "crash": "killed by SIGSEGV" + crash + r"(, with GUEST:R\d on its stack)?",
    }
    for name, how in expected.items():
        found = [ioc["end"] for ioc in iocs if ioc["ioc"] == name]
        if len(found) != 1 or not re.fullmatch(how, found[0] or ""):
            raise Wrong(f"the IOC {name} ended {found}, not {how}; {missing}")
    return "; ".join(ioc["end"] for ioc in iocs if ioc["ioc"] in expected)


def printed(place):
    """Number of lines of the imitation in the log: what it wrote, said by the record that it processed."""
    written = (place / "ioc.err").read_text().splitlines()
    found = replay(["console", "--format", "jsonl", "--ioc", "guest"], place / "log")
    lines = [line for line in map(json.loads, found.splitlines()) if line["kind"] == "line"]
    texts = [line["text"] for line in lines]
    begin = written.index(texts[0]) if texts and texts[0] in written else len(written)
    if len(texts) < RECORDED // 2 or texts != written[begin : begin + len(texts)]:
        raise Wrong(f"printed {written}, recorded {texts}")
    # of the first one, recording may have begun within the processing
    others = {(line["thread"], line["record"]) for line in lines[1:]} - {("imitation", "GUEST:R9")}
    if others or lines[0]["record"] not in (None, "GUEST:R9"):
        raise Wrong(f"lines of {others}")
    return len(lines)


def writes(place, errors):
    """What --io tells of the imitation: its lines, or their sum where the recorder says that it has no more."""
    rows = [json.loads(line) for line in replay(["io", "--json", "--ioc", "guest"], place / "log").splitlines()]
    lines = [len(line) + 1 for line in (place / "ioc.err").read_text().splitlines()]
    by_file = [row for row in rows if row["bytes_written"] and "process" not in row["how"]]
    sums = [row for row in rows if "process" in row["how"]]
    if bool(sums) != bool(re.search("files .*not recorded|sums", errors)) or len(by_file) + len(sums) != 1:
        raise Wrong(f"--io told {rows}; {errors}")
    if sums:
        # /proc counts other writes too
        if not 0 < sums[0]["bytes_written"] <= sum(lines) + 100:
            raise Wrong(f"wrote {sum(lines)} bytes, --io told {sums}")
        return "bytes written as a sum"
    (row,) = by_file
    (calls,) = [of["calls"] for of in row["calls"] if of["kind"] == "write"]
    # those of some seconds in a row
    sums = {sum(lines[begin : begin + calls]) for begin in range(len(lines) - calls + 1)}
    if calls < RECORDED // 2 or row["bytes_written"] not in sums or not row["file"].endswith("ioc.err"):
        raise Wrong(f"wrote {lines}, --io told {row}")
    return "with their file"


def examine_real(console, place, ioc):
    """The same for a guest with a real IOC and caput."""
    puts = [json.loads(line) for line in replay(["puts", "--format", "jsonl"], place / "log").splitlines()]
    seen = [
        (put["pv"], put["old"], put["new"], put["via"], put["user"], put["client_host"], put["status"], put["source"])
        for put in puts
    ]
    expected = [
        (
            "GUEST:SP",
            max(number - 1, 1),
            number,
            "ca_write" if number < 6 else "ca_write_notify",
            "root",
            "guest",
            "ok",
            "both",
        )
        for number in range(1, 7)
    ]
    if seen != expected:
        raise Wrong(f"puts {seen}, not {expected}")
    whole = len(re.findall(r"GUEST:DOUBLE .*\n +GUEST:TEXT ", replay(["traces"], place / "log")))
    if whole != len(puts):
        raise Wrong(f"{whole} whole chains of {len(puts)}")
    release, up = re.search(r"^BEGIN (\S+) up (\S+)$", console, re.M).groups()
    return (
        f"{release}, EPICS Base {ioc['base_version']}, 6 puts by caput with their chains; "
        f"{resident(console)}; kernel up after {up} s"
    )


def resident(console):
    """The recorder's resident memory near the end of the recording."""
    found = re.search(r"^RESIDENT (\d+)$", console, re.M)
    if not found:
        raise Wrong("the recorder's memory is unknown: did it end early?")
    return f"{int(found.group(1)) / 1024:.1f} MiB resident"


def first_hit(console, puts):
    """Seconds from the recorder's start to the first put in its log."""
    clock, at = map(float, re.search(r"\bCLOCK (\S+) (\S+)$", console, re.M).groups())
    (start,) = map(float, re.findall(r"^START (\S+)$", console, re.M))
    return services.moment(puts[0]["time"]).timestamp() - clock + at - start
