"""A Channel Access client that only looks: what the plant's records held, by the IOCs' own word.

    observer.py PORT[,PORT...]

Commands on stdin, one JSON object a line; answers on stdout:

    {"do": "know", "wide": [PV, ...], "long": [PV, ...]}   records whose value has 64 bits; whose text can be long
    {"do": "watch", "pvs": [PV, ...]}      subscribes to value and alarm
    {"do": "get", "pvs": [PV, ...]}        {PV: READING}
    {"do": "events"}                       {PV: [READING and "received", ...]}, all that came so far

READING is {"value", "severity", "status", "stamp"}: value in the channel's own type (enums as numbers; 64-bit integers,
which Channel Access can't carry, by way of text; long strings whole; not a number as "NaN"), severity and status as
numbers, stamp the record's TIME in nanoseconds since 1970 (1990 if it never processed). This client puts nothing.
"""

import ctypes
import json
import math
import os
import sys
import time

TIMEOUT = 20.0
STRING = 0


def plain(value, is_array):
    """A value as JSON has it, and as iocreplay writes it."""
    if isinstance(value, ctypes.Array):
        value = list(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(one, False) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        value = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return [value] if is_array else value


class Observer:
    def __init__(self):
        from epics import ca, dbr

        self.ca, self.dbr = ca, dbr
        ca.initialize_libca()
        self.channels, self.subscriptions, self.seen = {}, {}, {}
        self.wide, self.long = (), ()

    def know(self, wide, long):
        self.wide, self.long = frozenset(wide), frozenset(long)
        return {}

    def connect(self, pvs):
        new = [pv for pv in pvs if pv not in self.channels]
        for pv in new:
            name = pv + ".VAL$" if pv in self.long else pv
            self.channels[pv] = self.ca.create_channel(name, connect=False, auto_cb=False)
        for pv in new:
            if not self.ca.connect_channel(self.channels[pv], timeout=TIMEOUT):
                raise RuntimeError(f"{pv}: no server answers")

    def type_of(self, pv):
        native = STRING if pv in self.wide else self.ca.field_type(self.channels[pv])
        return self.ca.promote_fieldtype(native, use_time=True)

    def reading(self, pv, data):
        value = plain(data["value"], self.ca.element_count(self.channels[pv]) > 1)
        if pv in self.wide:
            value = int(value)
        if pv in self.long:
            value = bytes(value).split(b"\0")[0].decode(errors="replace")
        stamp = int(data["posixseconds"]) * 1_000_000_000 + int(data["nanoseconds"])
        return {"value": value, "severity": int(data["severity"]), "status": int(data["status"]), "stamp": stamp}

    def watch(self, pvs):
        self.connect(pvs)
        for pv in pvs:
            events = self.seen.setdefault(pv, [])

            def take(pv=pv, events=events, **data):
                events.append({**self.reading(pv, data), "received": time.time_ns()})

            self.subscriptions[pv] = self.ca.create_subscription(
                self.channels[pv],
                ftype=self.type_of(pv),
                mask=self.dbr.DBE_VALUE | self.dbr.DBE_ALARM,
                callback=take,
            )
        return {}

    def get(self, pvs):
        self.connect(pvs)
        for pv in pvs:
            self.ca.get_with_metadata(self.channels[pv], ftype=self.type_of(pv), wait=False)
        answers = {}
        for pv in pvs:
            data = self.ca.get_complete_with_metadata(self.channels[pv], ftype=self.type_of(pv), timeout=TIMEOUT)
            if data is None:
                raise RuntimeError(f"{pv}: no answer")
            answers[pv] = self.reading(pv, data)
        return answers

    def events(self):
        return {pv: list(events) for pv, events in self.seen.items()}


def obey(observer, command):
    if command["do"] == "know":
        return observer.know(command["wide"], command["long"])
    if command["do"] == "watch":
        return observer.watch(command["pvs"])
    if command["do"] == "get":
        return observer.get(command["pvs"])
    if command["do"] == "events":
        return observer.events()
    raise RuntimeError(f"unknown command {command['do']}")


def main():
    ports = sys.argv[1].split(",")
    os.environ["EPICS_CA_ADDR_LIST"] = " ".join(f"127.0.0.1:{port}" for port in ports)
    os.environ["EPICS_CA_AUTO_ADDR_LIST"] = "NO"
    os.environ["EPICS_CA_MAX_ARRAY_BYTES"] = "10000000"
    observer = Observer()
    for line in sys.stdin:
        try:
            answer = obey(observer, json.loads(line))
        except Exception as error:  # whatever it is, the caller has to hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    # No tidy end: libca's exit handlers may wait for servers that are gone.
    os._exit(0)


if __name__ == "__main__":
    main()
