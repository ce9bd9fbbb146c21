"""A second reader of the log, made from docs/format.md alone: it agrees with the first, or one of the
three is wrong. Its tables of facts are those of that page.

    reader.py FORMAT.md SEGMENT

Prints one line per event: the time, then the fact in the format of Rust's Debug, without the names of structs and of
their members. Needs Python 3 and libzstd.
"""

import ctypes
import re
import struct
import sys
import zlib

MASK = (1 << 64) - 1


class Schema:
    """The tables "Facts" and of the enums and structs, which follow it."""

    def __init__(self, page):
        rows = re.findall(r"^\| \d+ \| (\w+) \| \w+ \| \w+ \| (.*) \|$", page.split("\n## Facts\n")[1], re.MULTILINE)
        self.facts = [(name, self.members(members)) for name, members in rows]
        self.enums, self.structs = {}, {}
        for name, holds in re.findall(r"^\| ([A-Z]\w+) \| (.*) \|$", page, re.MULTILINE):
            if holds.startswith("0 "):
                variants = [variant.split(" ", 2)[1:] for variant in self.split(holds)]
                self.enums[name] = [(v[0], self.variant(v[1:])) for v in variants]
            else:
                self.structs[name] = self.members(holds)

    @staticmethod
    def split(text):
        """At commas that are in no parentheses."""
        return re.split(r", (?![^(]*\))", text)

    def members(self, text):
        text = re.sub(r" \((?!\w+ \w+,)[^)]*\)", "", text)
        return [tuple(member.split(" ", 1)) for member in self.split(text)]

    def variant(self, rest):
        if not rest:
            return []
        if rest[0].startswith("("):
            return self.members(rest[0][1:-1])
        return [("", rest[0])]


class Postcard:
    """Takes things off the front of bytes. A fact, an enum and a struct are (name, [members]), a list is a list,
    a tuple a tuple, a text a str, bytes are bytes, and a float is (size, bits)."""

    def __init__(self, schema, data):
        self.schema, self.data, self.at = schema, data, 0

    def take(self, count):
        self.at += count
        if self.at > len(self.data):
            raise ValueError("bytes are missing")
        return self.data[self.at - count : self.at]

    def varint(self):
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def zigzag(self):
        return unzigzag(self.varint())

    def read(self, kind):
        if kind.endswith("?"):
            return ("Some", [self.read(kind[:-1])]) if self.take(1)[0] else ("None", [])
        if kind == "[byte]":
            return self.take(self.varint())
        if kind.startswith("["):
            return [self.read(kind[1:-1]) for _ in range(self.varint())]
        if kind.startswith("("):
            return tuple(self.read(part) for part in kind[1:-1].split(", "))
        if kind == "bool":
            return bool(self.take(1)[0])
        if kind in ("u16", "u32", "u64"):
            return self.varint()
        if kind in ("i32", "i64"):
            return self.zigzag()
        if kind in ("f32", "f64"):
            size = int(kind[1:]) // 8
            return (size, int.from_bytes(self.take(size), "little"))
        if kind == "string":
            return self.take(self.varint()).decode()
        if kind in self.schema.structs:
            return "", self.members(self.schema.structs[kind])
        name, members = self.schema.enums[kind][self.varint()]
        return name, self.members(members)

    def members(self, members):
        return [self.read(kind) for _, kind in members]

    def fact(self):
        name, members = self.schema.facts[self.varint()]
        return name, self.members(members)


def unzigzag(number):
    return (number >> 1) ^ -(number & 1)


def signed(number):
    return number - (1 << 64) if number >> 63 else number


class Steps:
    """Which of the numbered things comes next."""

    def __init__(self):
        self.owner, self.came_after, self.last, self.latest, self.seen = [None], {}, {}, [], {0}
        self.lowest = 1

    def add(self, owner):
        self.owner.append(owner)

    def read(self, step):
        if step in (0, 2, 3, 4):
            owner = self.latest[max(step - 1, 0)]
            thing = self.came_after[self.last[owner]]
        elif step == 1:
            while self.lowest in self.seen:
                self.lowest += 1
            thing = self.lowest
        else:
            thing = step - 5
        owner = self.owner[thing]
        if owner in self.last:
            self.came_after[self.last[owner]] = thing
        self.last[owner] = thing
        self.latest = [owner, *(other for other in self.latest if other != owner)][:4]
        first = thing not in self.seen
        self.seen.add(thing)
        return thing, first


class Pair:
    def __init__(self, last=0, older=0):
        self.last, self.older = last, older

    def copy(self):
        return Pair(self.last, self.older)


class Template:
    """Members of a fact that its template does not say: where they stand in it, and how they are told."""

    RECORDS = {"Process": 3, "Complete": 3, "Put": 4, "Cause": 5, "CaPut": 1}
    VALUES = {"Complete": [4], "Put": [8, 9]}

    def __init__(self, fact):
        self.name, self.members = fact
        self.has_sp = self.name in ("Process", "Complete", "Put", "Cause")
        self.owner = ("thread" if self.has_sp else "circuit", self.members[0])

    def fact(self, record, told, rest):
        """The fact: `told` gives a number by its slot and whether it is a double, `rest` is column 7."""
        members = list(self.members)
        if self.name == "Cause":
            members[5] = ("Some", [record]) if members[5][0] == "Some" else members[5]
            members[4] = told(0, False)
        elif self.name in self.RECORDS:
            members[self.RECORDS[self.name]] = record
        if self.name == "CaPut":
            members[5] = told("ioid", False)
            if len(members[7]) == 8:
                members[7] = told(1, members[3] == 6).to_bytes(8, "big")
            else:
                members[7] = rest.read("[byte]")
        if self.name == "CaAnswer":
            members[1] = told("ioid", False)
        places = self.VALUES.get(self.name, [])
        variants = [self.members[place][0] for place in places]
        for slot, place in enumerate(places):
            variant = variants[slot]
            if variant == "Text":
                members[place] = rest.read("Value")
            elif variant != "Unknown":
                same = slot == 1 and variants[0] == variant
                number = told("old" if same else slot, variant == "Double")
                if variant in ("Float", "Double"):
                    number = (4 if variant == "Float" else 8, number)
                members[place] = (variant, [signed(number) if variant == "Int" else number])
        return self.name, members


def columns(schema, body, count, time):
    """The events of a body in encoding 2."""
    front = Postcard(schema, body)
    lengths = [front.varint() for _ in range(17)]
    column = [Postcard(schema, front.take(length)) for length in lengths]
    if front.at != len(body):
        raise ValueError("the columns do not fill the body")

    templates, template_steps, sp = [None], Steps(), 0
    while column[0].at < lengths[0]:
        template = Template(column[0].fact())
        if template.has_sp:
            sp = signed((sp + template.members[1]) & MASK)
            template.members[1] = sp
        templates.append(template)
        template_steps.add("all")
    shapes, steps, record = [None], Steps(), 0
    while column[1].at < lengths[1]:
        number, _ = template_steps.read(column[1].varint())
        record += column[2].zigzag()
        shapes.append((number, record))
        steps.add(templates[number].owner)

    of_shape, of_template, ioid = {}, {}, Pair()
    for _ in range(count):
        shape, first = steps.read(column[3].varint())
        if shape == 0:
            fact = column[7].fact()
        else:
            number, record = shapes[shape]
            pairs = of_template.get(number, {}) if first else of_shape[shape]
            pairs = {slot: pair.copy() for slot, pair in pairs.items()}
            news = []

            def told(slot, double, pairs=pairs, news=news):
                own = ioid if slot == "ioid" else pairs.setdefault(1 if slot == "old" else slot, Pair())
                pair = own
                if slot == "old":
                    pair = Pair(pairs.setdefault(0, Pair()).last, own.last)
                value = tell(column, pair, double)
                news.append((own, value))
                return value

            fact = templates[number].fact(record, told, column[7])
            for pair, value in news:
                pair.last, pair.older = value, pair.last
            of_shape[shape] = of_template[number] = pairs
        high = column[4 if fact[0] == "Process" and shape else 5].varint()
        time = (time + (high << 8 | column[8].take(1)[0])) & MASK
        yield time, fact
    if any(part.at != length for part, length in zip(column, lengths)):
        raise ValueError("columns are left over")


def tell(column, pair, double):
    """A number."""
    (how,) = column[6].take(1)
    if how == 0:
        return pair.last
    if how == 1 and double:
        last, older = (struct.unpack("<d", struct.pack("<Q", number))[0] for number in (pair.last, pair.older))
        return struct.unpack("<Q", struct.pack("<d", last + (last - older)))[0]
    if how == 1:
        return (2 * pair.last - pair.older) & MASK
    if how == 2:
        return pair.older
    length, zeros = (how - 3) // 8 + 1, (how - 3) % 8
    places = range(zeros, length)
    difference = sum(column[16 - place].take(1)[0] << 8 * place for place in places)
    return (pair.last + unzigzag(difference)) & MASK


def times_facts(schema, body, count, time):
    """The events of a body in encoding 1."""
    data = Postcard(schema, body)
    times = []
    for _ in range(count):
        time = (time + data.zigzag()) & MASK
        times.append(time)
    for time in times:
        yield time, data.fact()
    if data.at != len(body):
        raise ValueError("bytes are left over")


ZSTD = ctypes.CDLL("libzstd.so.1")
ZSTD.ZSTD_decompress.restype = ctypes.c_size_t
ZSTD.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


def unpack(stored, length):
    raw = ctypes.create_string_buffer(length)
    # Takes frames one behind the other as one.
    if ZSTD.ZSTD_decompress(raw, length, stored, len(stored)) != length:
        raise ValueError("the body has not the length that its header says")
    return raw.raw


def blocks(data):
    """The blocks of a segment that are whole: header's fields and events' bytes."""
    for copy in (data[:80], data[80:160]):
        if copy[:8] == b"\x89IOCREC\n" and zlib.crc32(copy[:76]) == int.from_bytes(copy[76:80], "little"):
            tag = copy[76:80]
            break
    else:
        raise SystemExit("no header")
    at = 160
    while (at := data.find(b"\xb7\x4c\x0f\xe3" + tag, at)) >= 0:
        header = data[at : at + 52]
        if len(header) < 52 or zlib.crc32(header[:48]) != int.from_bytes(header[48:], "little"):
            at += 1
            continue
        fields = struct.unpack("<4sIIHHIIIQQII", header)
        body = data[at + 52 : at + 52 + fields[6]]
        if zlib.crc32(body) == fields[10]:
            yield fields, body
        at += 52 + fields[6]


def shown_float(size, bits):
    letter = "f" if size == 4 else "d"
    data = bits.to_bytes(size, "little")
    (number,) = struct.unpack("<" + letter, data)
    if number != number:
        return "NaN"
    # The fewest digits that give the same bits.
    shortest = next(
        text
        for text in (f"{number:.{digits}g}" for digits in range(1, 18))
        if struct.pack("<" + letter, float(text)) == data
    )
    # Zeros and points as Python has them, exponents as Rust has them.
    return re.sub(r"(\.0)?e\+?(-?)0*", r"e\2", repr(float(shortest)))


def shown(thing):
    if isinstance(thing, bool):
        return str(thing).lower()
    if isinstance(thing, bytes):
        return shown(list(thing))
    if isinstance(thing, str):
        return '"' + thing.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(thing, list):
        return f"[{', '.join(map(shown, thing))}]"
    if isinstance(thing, tuple):
        first, second = thing
        if isinstance(first, int):
            return shown_float(first, second)
        if isinstance(first, str) and isinstance(second, list):
            members = ", ".join(map(shown, second))
            return f"{first}({members})" if first and second else first + members
        return f"({shown(first)}, {shown(second)})"
    return str(thing)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = Schema(file.read())
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    for fields, stored in blocks(data):
        encoding, raw, count, first = fields[4], fields[5], fields[7], fields[8]
        read = {1: times_facts, 2: columns}[encoding]
        for time, fact in read(schema, unpack(stored, raw), count, first):
            print(time, shown(fact))


if __name__ == "__main__":
    main()
