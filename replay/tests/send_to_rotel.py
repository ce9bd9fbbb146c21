#!/usr/bin/env python3
"""Sends OTLP to a real collector: rotel (PyPI), which decodes strictly and answers 400 to what it can't read.

Usage: python3 send_to_rotel.py IOCREPLAY LOG TRACES.otlp TRACES.otlp-proto LOGS.otlp ... METRICS.otlp-proto
Each file is posted to the path of its signal: of JSON lines each line, of protobuf all at once. Then iocreplay sends
the log by each of its commands. Prints a line for each that was taken; exits with 1 at the first that was not.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SIGNALS = ("traces", "logs", "metrics")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(here):
    """Starts the collector, which throws away what it takes; gives its process and URL once it listens."""
    package = importlib.util.find_spec("rotel").submodule_search_locations[0]
    http, grpc = free_port(), free_port()
    command = [os.path.join(package, "rotel-agent"), "start", "--exporter", "blackhole"]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
    command += ["--pid-file", os.path.join(here, "pid"), "--log-file", os.path.join(here, "log")]
    collector = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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


def main():
    program, log, *files = sys.argv[1:]
    with tempfile.TemporaryDirectory() as here:
        collector, url = start(here)
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
        finally:
            collector.kill()
            collector.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
