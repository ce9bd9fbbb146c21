"""Puts values of all forms to the records of pvaccess_records.db over PVAccess, by p4p.

    pva_records.py SEARCH_PORT

Prints a JSON object for each put: the PV, the fields by name, the value that stands for the whole, the options, what
the server said (null: it is done), and what it held before and holds then, by the names of the PVs that the put is for.
"""

import json
import sys

import numpy
from p4p import Value
from p4p.client.thread import Context, RemoteError

WAIT = "record[process=true,block=true]"
STILL = "record[process=false]"
BLOCK = "record[block=true]"
OPTIONS = {
    "": {},
    WAIT: {"process": "true", "block": "true"},
    STILL: {"process": "false"},
    BLOCK: {"block": "true"},
}
LONG = [*b"l" * 200, 0]
COUNTED = [float(number) for number in range(2000)]
#: PV, what p4p is given, its pvRequest, the fields, the value that stands for all of it.
PUTS = [
    ("R:AO", {"value": 1.25}, "", {"value": 1.25}, 1.25),
    # limited by the record
    ("R:AO", {"value": 1e9}, "", {"value": 1e9}, 1e9),
    ("R:AO", {"value": -0.0}, WAIT, {"value": -0.0}, -0.0),
    ("R:LONG", {"value": -(2**31)}, "", {"value": -(2**31)}, -(2**31)),
    ("R:INT64", {"value": 2**62 + 1}, "", {"value": 2**62 + 1}, 2**62 + 1),
    ("R:INT64", {"value": -(2**63)}, "", {"value": -(2**63)}, -(2**63)),
    ("R:BO", {"value.index": 1}, "", {"value.index": 1}, 1),
    ("R:MBBO", {"value.index": 2}, WAIT, {"value.index": 2}, 2),
    # of an index, a record has 16 bits
    ("R:MBBO", {"value.index": 70000}, "", {"value.index": 70000}, 70000),
    ("R:MBBO", {"value.index": -1}, "", {"value.index": -1}, -1),
    ("R:TEXT", {"value": "grüße"}, "", {"value": "grüße"}, "grüße"),
    # texts that look like a number, like a menu's choice, and like a word of PVAccess
    ("R:TEXT", {"value": "123.50"}, "", {"value": "123.50"}, "123.50"),
    ("R:TEXT", {"value": "Passive"}, "", {"value": "Passive"}, "Passive"),
    ("R:TEXT", {"value": "value"}, "", {"value": "value"}, "value"),
    # longer than the field
    ("R:TEXT", {"value": "t" * 60}, "", {"value": "t" * 60}, "t" * 60),
    ("R:TEXT", {"value": ""}, "", {"value": ""}, ""),
    ("R:TEXT.DESC", {"value": "what it is"}, "", {"value": "what it is"}, "what it is"),
    # a long text is an array of its bytes
    ("R:LSO.VAL$", {"value": LONG}, "", {"value": LONG}, LONG),
    ("R:LSO.VAL$", {"value": [0]}, "", {"value": [0]}, [0]),
    ("R:DELAYED.CALC", {"value": "A+1"}, "", {"value": "A+1"}, "A+1"),
    ("R:DELAYED.A", {"value": 3.0}, WAIT, {"value": 3.0}, 3.0),
    ("R:STILL.SCAN", {"value.index": 0}, STILL, {"value.index": 0}, 0),
    ("R:STILL", {"value": 5}, STILL, {"value": 5}, 5),
    ("R:DOUBLES", {"value": [1.5, -2.5, 0.0]}, "", {"value": [1.5, -2.5, 0.0]}, [1.5, -2.5, 0.0]),
    # more than the record has room for
    ("R:DOUBLES", {"value": [float(n) for n in range(8)]}, "", {"value": [float(n) for n in range(8)]},
     [float(n) for n in range(8)]),
    ("R:DOUBLES", {"value": []}, "", {"value": []}, []),
    ("R:STRINGS", {"value": ["one", "", "s" * 39]}, "", {"value": ["one", "", "s" * 39]}, ["one", "", "s" * 39]),
    ("R:CHARS", {"value": [-1, 0, 127]}, "", {"value": [-1, 0, 127]}, [-1, 0, 127]),
    ("R:INT64S", {"value": [2**62 + 1, -(2**63)]}, WAIT, {"value": [2**62 + 1, -(2**63)]}, [2**62 + 1, -(2**63)]),
    ("R:FLOATS", {"value": [0.5, -0.25]}, "", {"value": [0.5, -0.25]}, [0.5, -0.25]),
    ("R:LOCKED", {"value": 4.0}, "", {"value": 4.0}, 4.0),
    ("R:GROUP", {"a.b.x": 2.5}, "", {"a.b.x": 2.5}, None),
    ("R:GROUP", {"any": 70000}, "", {"any": 70000}, None),
    ("R:GROUP", {"text.value": "in a group"}, "", {"text.value": "in a group"}, None),
    ("R:GROUP", {"table.column": [3.0, 4.0]}, "", {"table.column": [3.0, 4.0]}, None),
    ("R:GROUP", {"a.b.x": -1.0, "any": -2, "text.value": "", "table.column": []}, BLOCK,
     {"a.b.x": -1.0, "any": -2, "text.value": "", "table.column": []}, None),
    # one member is called value
    ("R:VALUEGROUP", {"value": [1.5, 2.5]}, "", {"value": [1.5, 2.5]}, [1.5, 2.5]),
    ("R:VALUEGROUP", {"descriptor": "alone"}, "", {"descriptor": "alone"}, None),
    ("R:VALUEGROUP", {"value": [3.5], "descriptor": "both"}, "", {"value": [3.5], "descriptor": "both"}, [3.5]),
    ("R:ARRAYGROUP", {"parts": [{"of": 1.5}, {"of": 2.5}]}, "", {"parts[0].of": 1.5, "parts[1].of": 2.5}, None),
    # the other one is written as it was
    ("R:ARRAYGROUP", {"parts": [{"of": 7.5}]}, "", {"parts[0].of": 7.5}, None),
    # longer than what the log keeps
    ("R:LONGGROUP", {"a": COUNTED, "b": 5.5, "c": "behind it"}, "", {"a": COUNTED, "b": 5.5, "c": "behind it"}, None),
    ("R:LOCKEDGROUP", {"first": 1.0, "second": 2.0}, "", {"first": 1.0, "second": 2.0}, None),
]  # fmt: skip
#: The records that a group's fields are of.
MEMBERS = {
    "R:GROUP": {"a.b.x": "R:G:DEEP", "any": "R:G:ANY", "text.value": "R:G:TEXT", "table.column": "R:G:COLUMN"},
    "R:VALUEGROUP": {"value": "R:V:VALUE", "descriptor": "R:V:TEXT"},
    "R:ARRAYGROUP": {"parts[0].of": "R:S:FIRST", "parts[1].of": "R:S:SECOND"},
    "R:LONGGROUP": {"a": "R:C:LONG", "b": "R:C:NUMBER", "c": "R:C:TEXT"},
    "R:LOCKEDGROUP": {"first": "R:L:OPEN", "second": "R:L:LOCKED"},
}


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, Value):
        return value["index"]
    return value.tolist() if isinstance(value, numpy.ndarray) else value


def main():
    search_port = sys.argv[1]
    configuration = {
        "EPICS_PVA_ADDR_LIST": "127.0.0.1:" + search_port,
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVA_BROADCAST_PORT": search_port,
    }
    with Context("pva", conf=configuration, useenv=False, nt=False) as context:

        def held(pv, fields):
            """What the server holds of each PV that these fields are of."""
            members = MEMBERS.get(pv)
            pvs = [members[field] for field in fields] if members else [pv]
            return {of: plain(context.get(of, timeout=10)["value"]) for of in pvs}

        for pv, value, request, fields, requested in PUTS:
            said, before = None, held(pv, fields)
            try:
                context.put(pv, value, request=request or None, timeout=10)
            except RemoteError as error:
                said = str(error)
            print(json.dumps({
                "pv": pv, "fields": fields, "requested": requested, "said": said,
                "options": OPTIONS[request],
                "before": before, "held": held(pv, fields),
            }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
