"""Values of all forms of PVAccess, by p4p.

    pva_values.py serve PORT SEARCH_PORT    serves them on loopback; prints "ready"; ends when stdin ends
    pva_values.py put SEARCH_PORT           puts to them; prints what it sent, a JSON object for each put:
                                            the PV, the fields by name, and the value that stands for the whole

Needs EPICS_PVAS_SERVER_PORT and EPICS_PVAS_BROADCAST_PORT in the server's environment.
"""

import json
import sys

from p4p import Type, Value
from p4p.nt import NTEnum, NTScalar, NTTable

POINT = ("S", None, [("x", "i"), ("y", "s")])
TYPES = {
    "V:NUMBER": NTScalar("d").type,
    "V:TEXT": NTScalar("s").type,
    "V:TEXTS": NTScalar("as").type,
    "V:ENUM": NTEnum().type,
    "V:TABLE": NTTable.buildType([("a", "ad"), ("b", "as"), ("c", "ai")]),
    "V:UNION": Type([("value", ("U", None, [("d", "d"), ("s", "s"), ("p", POINT)]))]),
    "V:ANY": Type([("value", "v")]),
    "V:POINTS": Type([("value", ("aS", None, POINT[2]))]),
    "V:UNIONS": Type([("value", ("aU", None, [("d", "d"), ("s", "s")]))]),
    "V:ANYS": Type([("value", "av")]),
    "V:DEEP": Type([("value", "d"), ("a", ("S", None, [("b", POINT), ("e", "d")])), ("z", "i")]),
    "V:STRUCTURE": Type([("value", ("S", None, [("x", "d"), ("y", "d")])), ("z", "i")]),
    "V:KINDS": Type([("b", "?"), ("i8", "b"), ("u8", "B"), ("i16", "h"), ("u32", "I"), ("i64", "l"), ("u64", "L"),
                     ("f", "f"), ("ab", "a?"), ("ai8", "ab"), ("au64", "aL"), ("af", "af")]),
}  # fmt: skip
NAN, INF = float("nan"), float("inf")
STRUCTURE = Value(Type([("p", "i"), ("q", ("S", None, [("r", "s")]))]), {"p": 1, "q.r": "in"})
#: PV, what p4p is given, the fields, the value that stands for all of it.
PUTS = [
    ("V:NUMBER", {"value": 1.5}, {"value": 1.5}, 1.5),
    ("V:NUMBER", {"value": 2.5, "alarm.severity": 2, "alarm.message": "hm"},
     {"value": 2.5, "alarm.severity": 2, "alarm.message": "hm"}, 2.5),
    ("V:NUMBER", {"timeStamp": {"secondsPastEpoch": 5, "nanoseconds": 6, "userTag": 1}},
     {"timeStamp.secondsPastEpoch": 5, "timeStamp.nanoseconds": 6, "timeStamp.userTag": 1}, None),
    ("V:TEXT", {"value": ""}, {"value": ""}, ""),
    ("V:TEXT", {"value": "x" * 300}, {"value": "x" * 300}, "x" * 300),
    # 4096 bytes are kept, four of which are the set of fields and the size
    ("V:TEXT", {"value": "z" * 5000}, {"value": "z" * 4089}, "z" * 4089),
    ("V:TEXT", {"value": "ü" * 3000}, {"value": "ü" * 2044}, "ü" * 2044),
    ("V:TEXTS", {"value": ["a", "b" * 39, ""]}, {"value": ["a", "b" * 39, ""]}, ["a", "b" * 39, ""]),
    ("V:TEXTS", {"value": ["a", "b" * 60]}, {"value[0]": "a", "value[1]": "b" * 60}, None),
    ("V:TEXTS", {"value": []}, {"value": []}, []),
    ("V:ENUM", "On", {"value.index": 1}, 1),
    ("V:ENUM", {"value.index": 2}, {"value.index": 2}, 2),
    ("V:ENUM", {"value": {"index": 1, "choices": ["no", "yes"]}},
     {"value.index": 1, "value.choices": ["no", "yes"]}, 1),
    ("V:TABLE", {"value": {"a": [3.0, 4.0], "b": ["p", "q"], "c": [7, 8]}},
     {"value.a": [3.0, 4.0], "value.b": ["p", "q"], "value.c": [7, 8]}, None),
    ("V:TABLE", {"value.b": ["only", "this"]}, {"value.b": ["only", "this"]}, None),
    ("V:UNION", {"value": ("d", 1.25)}, {"value.d": 1.25}, 1.25),
    ("V:UNION", {"value": ("s", "text")}, {"value.s": "text"}, "text"),
    ("V:UNION", {"value": ("p", {"x": 3, "y": "yy"})}, {"value.p.x": 3, "value.p.y": "yy"}, None),
    ("V:UNION", {"value": None}, {"value": None}, None),
    ("V:ANY", {"value": 7}, {"value": 7}, 7),
    ("V:ANY", {"value": "seven"}, {"value": "seven"}, "seven"),
    ("V:ANY", {"value": STRUCTURE}, {"value.p": 1, "value.q.r": "in"}, None),
    ("V:ANY", {"value": None}, {"value": None}, None),
    ("V:POINTS", {"value": [{"x": 1, "y": "one"}, None, {"x": 3, "y": "three"}]},
     {"value[0].x": 1, "value[0].y": "one", "value[1]": None, "value[2].x": 3, "value[2].y": "three"}, None),
    ("V:POINTS", {"value": []}, {"value": []}, []),
    ("V:UNIONS", {"value": [("d", 1.5), None, ("s", "u")]},
     {"value[0].d": 1.5, "value[1]": None, "value[2].s": "u"}, None),
    ("V:DEEP", {"a.b.x": 4}, {"a.b.x": 4}, None),
    ("V:DEEP", {"a": {"b": {"x": 5, "y": "dd"}, "e": 6.0}}, {"a.b.x": 5, "a.b.y": "dd", "a.e": 6.0}, None),
    ("V:DEEP", {"value": 1.0, "z": 3}, {"value": 1.0, "z": 3}, 1.0),
    ("V:STRUCTURE", {"value": {"x": 1.0, "y": 2.0}}, {"value.x": 1.0, "value.y": 2.0}, None),
    ("V:STRUCTURE", {"value.y": 3.0}, {"value.y": 3.0}, None),
    ("V:STRUCTURE", {"z": 9}, {"z": 9}, None),
    ("V:KINDS", {"b": True, "i8": -1, "u8": 255, "i16": -2, "u32": 2**32 - 1, "i64": -(2**63), "u64": 2**64 - 1,
                 "f": 0.5, "ab": [True, False], "ai8": [-1, 2], "au64": [2**64 - 1], "af": [0.25]},
     {"b": 1, "i8": -1, "u8": 255, "i16": -2, "u32": 2**32 - 1, "i64": -(2**63), "u64": 2**64 - 1,
      "f": 0.5, "ab": [1, 0], "ai8": [-1, 2], "au64": [2**64 - 1], "af": [0.25]}, None),
    # what JSON has no numbers for is text there
    ("V:NUMBER", {"value": NAN}, {"value": "NaN"}, "NaN"),
    ("V:NUMBER", {"value": INF}, {"value": "Infinity"}, "Infinity"),
    ("V:NUMBER", {"value": -INF}, {"value": "-Infinity"}, "-Infinity"),
    ("V:NUMBER", {"value": -0.0}, {"value": -0.0}, -0.0),
    ("V:NUMBER", {"value": 5e-324}, {"value": 5e-324}, 5e-324),
    ("V:KINDS", {"f": NAN, "af": [NAN, INF, -INF, -0.0, 0.25]},
     {"f": "NaN", "af": ["NaN", "Infinity", "-Infinity", -0.0, 0.25]}, None),
    ("V:KINDS", {"f": -0.0, "af": []}, {"f": -0.0, "af": []}, None),
    ("V:KINDS", {"ab": [], "ai8": [], "au64": []}, {"ab": [], "ai8": [], "au64": []}, None),
    ("V:UNION", {"value": ("d", NAN)}, {"value.d": "NaN"}, "NaN"),
    ("V:UNION", {"value": ("d", -0.0)}, {"value.d": -0.0}, -0.0),
    ("V:UNIONS", {"value": [("d", -INF), None, ("d", NAN)]},
     {"value[0].d": "-Infinity", "value[1]": None, "value[2].d": "NaN"}, None),
    ("V:UNIONS", {"value": []}, {"value": []}, []),
    ("V:ANY", {"value": NAN}, {"value": "NaN"}, "NaN"),
    ("V:ANYS", {"value": []}, {"value": []}, []),
    ("V:TABLE", {"value.a": [], "value.b": [], "value.c": []}, {"value.a": [], "value.b": [], "value.c": []}, None),
    ("V:TABLE", {"value.a": [NAN, -0.0, INF]}, {"value.a": ["NaN", -0.0, "Infinity"]}, None),
    ("V:DEEP", {"value": NAN, "a": {"e": -INF}}, {"value": "NaN", "a.e": "-Infinity"}, "NaN"),
    ("V:STRUCTURE", {"value": {"x": NAN, "y": -0.0}}, {"value.x": "NaN", "value.y": -0.0}, None),
]  # fmt: skip


def serve(port, search_port):
    from p4p.server import Server
    from p4p.server.thread import SharedPV

    def pv(name):
        start = {"value": {"index": 0, "choices": ["Off", "On", "Auto"]}} if name == "V:ENUM" else {}
        shared = SharedPV(initial=Value(TYPES[name], start))

        @shared.put
        def put(pv, op):
            pv.post(op.value())
            op.done()

        return shared

    configuration = {
        "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_BEACON_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_PVAS_SERVER_PORT": port,
        "EPICS_PVAS_BROADCAST_PORT": search_port,
    }
    with Server(providers=[{name: pv(name) for name in TYPES}], conf=configuration, useenv=False):
        print("ready", flush=True)
        sys.stdin.read()


def put(search_port):
    from p4p.client.thread import Context

    configuration = {
        "EPICS_PVA_ADDR_LIST": "127.0.0.1:" + search_port,
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVA_BROADCAST_PORT": search_port,
    }
    with Context("pva", conf=configuration, useenv=False, nt=False) as context:
        for pv, value, fields, requested in PUTS:
            context.put(pv, value, timeout=10)
            print(json.dumps({"pv": pv, "fields": fields, "requested": requested}), flush=True)


if __name__ == "__main__":
    {"serve": serve, "put": put}[sys.argv[1]](*sys.argv[2:])
