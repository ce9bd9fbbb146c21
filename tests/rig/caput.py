#!/usr/bin/env python3
"""Stands in for EPICS Base's caput and caget, which a Python package has for x86-64 only: called by either name, does
what scripts of iocreplay need of it, over Channel Access by libca, as those of Base 7.0 were seen to do it.

    caput [-c] [-w SECONDS] [-n | -s | -S | -a] PV VALUE...
    caget [-t] [-w SECONDS] [-n | -s | -S] [-g 17] [-# N] PV
"""

import os
import sys

import client

ENUM, CHAR = 3, 4  # db_access.h
ECA_NORMAL = 1
MAX_STRING = 39
ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


def unescaped(text):
    raw, rest = bytearray(), text.encode("utf-8", "surrogateescape")
    while rest:
        letter, rest = rest[:1], rest[1:]
        if letter != b"\\" or not rest:
            raw += letter
            continue
        letter, rest = rest[:1].decode("latin-1"), rest[1:]
        if letter == "x":
            raw.append(int(rest[:2], 16))
            rest = rest[2:]
        else:
            raw.append(ESCAPES.get(letter, ord(letter)))
    return bytes(raw)


def escaped(raw):
    names = {code: name for name, code in ESCAPES.items()}
    text = ""
    for byte in raw:
        if byte in names:
            text += "\\" + names[byte]
        elif byte in b"\\'\"":
            text += "\\" + chr(byte)
        else:
            text += chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"
    return text


def short(text):
    """It cuts first, and then decodes."""
    cut = text.encode("utf-8", "surrogateescape")[:MAX_STRING].decode("utf-8", "surrogateescape")
    return unescaped(cut)


class Text(bytes):
    """Bytes that the client's put encodes as they are."""

    def encode(self):
        return bytes(self)


def caput(library, options, pv, values):
    chid = library.channel(pv)
    kind = library.ca.field_type(chid)
    if "-S" in options:
        dbr, sent = CHAR, list(unescaped(values[0]) + b"\0")
    elif "-a" in options and kind == CHAR:
        dbr, sent = CHAR, [int(value) & 255 for value in values[1:]]
    elif "-a" in options:
        dbr, sent = 0, [Text(short(value)) for value in values[1:]]
    elif kind == ENUM and "-n" in options:
        dbr, sent = ENUM, int(values[0])
    else:
        dbr, sent = 0, Text(short(values[0]))
    status = library.put(pv, dbr, sent, True)
    return 0 if status == ECA_NORMAL else 1


def caget(library, options, pv):
    chid = library.channel(pv)
    kind = library.ca.field_type(chid)
    as_text = "-s" in options or kind == ENUM and "-n" not in options or kind == 0
    value = library.ca.get(chid, ftype=0 if as_text else kind, timeout=client.TIMEOUT)
    value = value.tolist() if hasattr(value, "tolist") else value
    many = value if isinstance(value, (list, tuple)) else [value]
    if "-S" in options:
        print(escaped(bytes(byte & 255 for byte in many).split(b"\0")[0]))
        return 0

    def shown(one):
        if isinstance(one, (str, bytes)):
            return escaped(one.encode() if isinstance(one, str) else one)
        if isinstance(one, float):
            return f"{one:.17g}"
        return str(one - 256 if kind == CHAR and one > 127 else one)

    # All that the record has room for, unless fewer are asked for.
    wanted = int(options.get("-#", library.ca.element_count(chid)))
    if "-#" in options or wanted > 1:
        padding = "" if as_text else 0
        many = (list(many) + [padding] * wanted)[:wanted]
        print(len(many), *map(shown, many))
    else:
        print(shown(many[0]))
    return 0


def main():
    arguments, options = sys.argv[1:], {}
    while arguments and arguments[0].startswith("-"):
        option = arguments.pop(0)
        options[option] = arguments.pop(0) if option in ("-w", "-g", "-#") else True
    pv, *values = arguments
    library = client.LibcaClient()
    if os.path.basename(sys.argv[0]) == "caput":
        return caput(library, options, pv, values)
    return caget(library, options, pv)


if __name__ == "__main__":
    sys.exit(main())
