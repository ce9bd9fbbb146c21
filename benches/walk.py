#!/usr/bin/env python3
"""Measures what reading all records of a running IOC costs the IOC and the recorder.

    benches/walk.py [--runs N] [--seconds S] [--records N,...]

For each number of records, an IOC scans ten of them ten times a second, and one recorder notes when each scan begins.
Quiet periods alternate with periods in which further recorders attach one after the other, each reading all records,
and with periods in which one recorder takes a snapshot, so that other load on the machine affects all alike. Prints as
Markdown: by how much the scan's intervals are off, how long a recorder takes from its start until its log holds all
records, less the same for an IOC of ten records, and what a snapshot costs the recorder: its CPU time in such a period,
less that of a recorder without snapshots.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests/rig"))
import private_net
from processes import Ioc, Recorder, program, start

SCANNED = 10
PERIOD = 0.1


def database(path, records):
    with open(path, "w", encoding="ascii") as file:
        for number in range(SCANNED):
            file.write(f'record(calc, "WALK:TICK{number}") {{ field(SCAN, ".1 second") field(CALC, "1") }}\n')
        for number in range(records - SCANNED):
            file.write(f'record(calc, "WALK:{number}") {{ }}\n')


def attach(pid, into):
    """Runs a recorder that reads all records and exits; its wall-clock and CPU time in seconds."""
    begin = time.monotonic()
    command = [program("iocrec"), "record", "--dir", into, "--pid", str(pid), "--tier", "packet"]
    process = start([*command, "--duration", "1ms"], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"the recorder failed with status {status}")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime


def snapshot(pid, into, seconds, *options):
    """Runs a recorder for a time; its CPU time in seconds, and the number of values read."""
    command = [program("iocrec"), "record", "--dir", into, "--pid", str(pid), "--tier", "packet"]
    command += ["--duration", f"{seconds:.0f}s", "--max-disk", "1G", *options]
    process = start(command, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"the recorder failed with status {status}")
    info = subprocess.run([program("iocreplay"), "info", into, "--json"], check=True, stdout=subprocess.PIPE).stdout
    facts = json.loads(info)["runs"][0]["facts"]
    return used.ru_utime + used.ru_stime, facts.get("snapshot", 0)


def intervals(log, windows):
    """Of each window of wall-clock time (seconds), by how much the scan's intervals in it are off, µs."""
    command = [program("iocreplay"), "traces", log, "--format", "otlp", "--pv", "WALK:TICK0"]
    starts = []
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                spans = [span for span in scope["spans"] if span["name"] == "process WALK:TICK0"]
                starts += [int(span["startTimeUnixNano"]) for span in spans]
    starts.sort()
    off = []
    for begin, end in windows:
        inside = [start / 1e9 for start in starts if begin <= start / 1e9 <= end]
        off.append([abs(later - earlier - PERIOD) * 1e6 for earlier, later in zip(inside, inside[1:])])
    return off


def measure(records, runs, seconds):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "walk.db")
        database(path, records)
        ioc = Ioc("walk", 5074, path)
        log = os.path.join(directory, "log")
        recorder = Recorder(log, [ioc.pid], "--only", "WALK:TICK0", "--no-puts", "--no-snapshots")
        quiet, busy, took, snapping, cost = [], [], [], [], []
        for run in range(runs):
            begin = time.time()
            time.sleep(seconds)
            quiet.append((begin, time.time()))
            begin = time.time()
            while time.time() < begin + seconds:
                took.append(attach(ioc.pid, os.path.join(directory, f"walk{run}-{len(took)}")))
            busy.append((begin, time.time()))
            begin = time.time()
            cpu, values = snapshot(ioc.pid, os.path.join(directory, f"snap{run}"), seconds)
            snapping.append((begin, time.time()))
            without, _ = snapshot(ioc.pid, os.path.join(directory, f"none{run}"), seconds, "--no-snapshots")
            cost.append((cpu - without, values))
        recorder.stop()
        off = intervals(log, quiet + busy + snapping)
        ioc.stop()
    return off[:runs], off[runs : 2 * runs], took, off[2 * runs :], cost


def line(what, records, runs):
    medians = [statistics.median(run) for run in runs if run]
    most = [max(run) for run in runs if run]
    count = sum(map(len, runs))
    print(
        f"| {records} | {what} | {count} | {statistics.median(medians):.0f} ({min(medians):.0f}-{max(medians):.0f}) "
        f"| {statistics.median(most):.0f} ({min(most):.0f}-{max(most):.0f}) |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--records", default="10,10000,100000")
    args = parser.parse_args()
    private_net.enter()
    print("| records | meanwhile | scans | interval off, µs: median of runs' medians | of runs' maxima |")
    print("|---|---|---|---|---|")
    lines, costs, base = [], [], None
    for records in map(int, args.records.split(",")):
        quiet, busy, took, snapping, cost = measure(records, args.runs, args.seconds)
        line("nothing", records, quiet)
        line(f"{len(took)} recorders attach", records, busy)
        line("a recorder attaches and takes a snapshot", records, snapping)
        more = statistics.median(cpu for cpu, _ in cost) * 1e3
        costs.append(f"| {records} | {cost[0][1]} | {more:.0f} |")
        walls, cpus = ([value * 1e3 for value in values] for values in zip(*took))
        median, cpu = statistics.median(walls), statistics.median(cpus)
        base = base or (median, cpu)
        lines.append(
            f"| {records} | {median:.0f} ({min(walls):.0f}-{max(walls):.0f}) | {median - base[0]:.0f} "
            f"| {cpu - base[1]:.0f} |"
        )
    print("\n| records | start to log closed, ms | less that of the first line | its CPU, ms, less that of the first |")
    print("|---|---|---|---|")
    print("\n".join(lines))
    print("\n| records | values read in a period | the recorder's CPU for that, ms |")
    print("|---|---|---|")
    print("\n".join(costs))


if __name__ == "__main__":
    main()
