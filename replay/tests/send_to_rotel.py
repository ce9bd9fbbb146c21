#!/usr/bin/env python3
"""Sends OTLP to a real collector: rotel (PyPI), which decodes strictly and answers 400 to what it can't read.

Usage: python3 send_to_rotel.py IOCREPLAY LOG TRACES.otlp TRACES.otlp-proto LOGS.otlp ... METRICS.otlp-proto
Each file is posted to the path of its signal: of JSON lines each line, of protobuf all at once. Then iocreplay sends
the log by each of its commands, and follows it; once more before the collector has started. Prints a line for each
that was taken; exits with 1 at the first that was not.
"""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from signal import SIGTERM

SIGNALS = ("traces", "logs", "metrics")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(here, http, said=subprocess.DEVNULL):
    """Starts the collector, which throws away what it takes; gives its process and URL once it listens.

    It says how much it has taken."""
    package = importlib.util.find_spec("rotel").submodule_search_locations[0]
    grpc = free_port()
    command = [os.path.join(package, "rotel-agent"), "start", "--exporter", "blackhole"]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
    command += ["--pid-file", os.path.join(here, "pid"), "--log-file", os.path.join(here, "log")]
    command += [word for signal in SIGNALS for word in ("--debug-log", signal)]
    collector = subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", http), timeout=1).close()
            return collector, f"http://127.0.0.1:{http}"
        except OSError:
            if collector.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("send_to_rotel: the collector does not start") from None
            time.sleep(0.1)


def post(url, kind, body):
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        print(f"send_to_rotel: {url} answered {error.code}: {error.read()!r}", file=sys.stderr)
        return False


def send_file(url, path):
    name = os.path.basename(path)
    signal, form = name.split(".")
    with open(path, "rb") as file:
        content = file.read()
    if form == "otlp":
        return all(post(f"{url}/v1/{signal}", "application/json", line) for line in content.splitlines())
    return post(f"{url}/v1/{signal}", "application/x-protobuf", content)


def taken(path):
    """How many spans, records and points the collector says that it has taken."""
    with open(path, encoding="utf-8") as file:
        said = re.sub("\x1b\\[[0-9]*m", "", file.read())
    return {
        noun: sum(map(int, re.findall(rf"Received {signal}\..* {noun}=(\d+)", said)))
        for signal, noun in (("traces", "spans"), ("logs", "logs"), ("metrics", "metrics"))
    }


def follow_before_start(here, program, log):
    """Follows the log while there is no collector yet, twice; it gets all once it is there, and nothing twice."""
    http = free_port()
    command = [program, "follow", log, "--interval", "1", "--otlp", f"http://127.0.0.1:{http}"]
    command += ["--signals", ",".join(SIGNALS), "--state", os.path.join(here, "state")]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # lines come nevertheless
    if not first.stdout.readline() or "next try in 1 s" not in first.stderr.readline():
        first.kill()
        raise SystemExit("send_to_rotel: follow waits for the collector")
    first.send_signal(SIGTERM)
    said = first.communicate(timeout=60)[1]
    if first.returncode != 1 or not said.endswith("a later run sends the rest\n"):
        raise SystemExit(f"send_to_rotel: follow: {said}")
    follower = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if "next try in 1 s" not in follower.stderr.readline():
        follower.kill()
        raise SystemExit("send_to_rotel: follow does not try again")
    path = os.path.join(here, "said")
    with open(path, "wb") as said:
        collector, _ = start(here, http, said)
    try:
        expected = {}
        for signal, noun in (("traces", "spans"), ("logs", "logs")):
            form = [program, signal, log, "--format", "otlp"]
            lines = subprocess.run(form, capture_output=True, text=True, check=True).stdout
            expected[noun] = lines.count('"startTimeUnixNano"' if noun == "spans" else '"eventName"')
        deadline = time.monotonic() + 60
        while any(taken(path)[noun] < count for noun, count in expected.items()) or not taken(path)["metrics"]:
            if time.monotonic() > deadline:
                raise SystemExit(f"send_to_rotel: follow: {taken(path)} of {expected}")
            time.sleep(0.1)
        follower.send_signal(SIGTERM)
        said = follower.communicate(timeout=60)[1]
        if follower.returncode != 0 or any(taken(path)[noun] != count for noun, count in expected.items()):
            raise SystemExit(f"send_to_rotel: follow: {said} {taken(path)} of {expected}")
    finally:
        follower.kill()
        collector.kill()
        collector.wait()


def main():
    program, log, *files = sys.argv[1:]
    with tempfile.TemporaryDirectory() as here:
        collector, url = start(here, free_port())
        try:
            # A collector that takes anything would prove nothing.
            for signal in SIGNALS:
                if post(f"{url}/v1/{signal}", "application/x-protobuf", b"\x0a\xff"):
                    raise SystemExit(f"send_to_rotel: {signal} that are damaged are taken")
            for path in files:
                if not send_file(url, path):
                    raise SystemExit(f"send_to_rotel: {path} is not taken")
                print(f"took {path}")
            for signal in SIGNALS:
                sent = subprocess.run([program, signal, log, "--otlp", url], capture_output=True, text=True)
                if sent.returncode != 0 or "sent 0 " in sent.stderr:
                    raise SystemExit(f"send_to_rotel: {signal}: {sent.stderr}")
                print(f"took {signal} that were sent: {sent.stderr.splitlines()[-1]}")
            followed = [program, "follow", "--once", log, "--otlp", url, "--signals", ",".join(SIGNALS)]
            sent = subprocess.run(followed, capture_output=True, text=True)
            if sent.returncode != 0 or sent.stderr:
                raise SystemExit(f"send_to_rotel: follow: {sent.stderr}")
            print("took what was followed")
        finally:
            collector.kill()
            collector.wait()
        follow_before_start(here, program, log)
        print("took what was followed before it had started")
    return 0


if __name__ == "__main__":
    sys.exit(main())
