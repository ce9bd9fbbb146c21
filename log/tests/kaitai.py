#!/usr/bin/env python3
"""Reads segments by their description in docs/format/iocrec.ksy, and compares that with the second reader (reader.py).

usage: kaitai.py COMPILER DESCRIPTION FORMAT.md SEGMENT...

Prints a line for each segment; fails at the first difference. COMPILER is the directory of kaitai-struct-compiler.
"""

import io
import json
import os
import subprocess
import sys
import zlib

import reader
import yaml
from kaitaistruct import KaitaiStream

FLAGS = (
    "is_keyframe defines has_classes has_put_field has_put has_network has_processing has_causes has_link_puts "
    "has_readings has_notes has_alarms has_others has_contents has_snapshots has_health"
).split()
# What the second reader numbers by names.
KINDS = {}


def check(what, ours, theirs):
    if ours != theirs:
        raise SystemExit(f"{what}: by the description {ours}, by the second reader {theirs}")


def compile_description(compiler, description):
    with open(description, encoding="utf-8") as file:
        given = json.dumps(yaml.safe_load(file))
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kaitai.js")
    made = subprocess.run(["node", script, os.path.abspath(compiler)], input=given, capture_output=True, text=True)
    if made.returncode:
        raise SystemExit(made.stderr)
    module = {}
    exec(compile(made.stdout, "iocrec.py", "exec"), module)
    return module["Iocrec"]


def in_set(of, number):
    """Whether a set may hold a number."""
    if of.form.value == 0:
        return True
    if of.form.value == 1:
        mask = (1 << 64) - 1
        h = (number + 0x9E3779B97F4A7C15) & mask
        h = ((h ^ h >> 30) * 0xBF58476D1CE4E5B9) & mask
        h = ((h ^ h >> 27) * 0x94D049BB133111EB) & mask
        h ^= h >> 31
        x, y = h & 0xFFFFFFFF, h >> 32 | 1
        size = 8 * len(of.bits)
        return all(of.bits[p // 8] >> p % 8 & 1 for p in ((x + k * y) % size for k in range(3)))
    last = 0
    for part in of.ranges:
        first = last + (part.distance_2.value >> 1)
        last = first + (part.num_more.value + 1 if part.distance_2.value & 1 else 0)
        if first <= number <= last:
            return True
    return False


def check_contents(where, contents, facts):
    listed = {kind.number.value: kind.num_facts.value for kind in contents.kinds}
    counted = {}
    for name, _ in facts:
        counted[KINDS[name]] = counted.get(KINDS[name], 0) + 1
    check(f"{where}: kinds", listed, counted)
    if contents.num_threads_1.value:
        of_thread = {thread.number.value: thread for thread in contents.threads}
        for name, members in facts:
            if name in ("Process", "RsetProcess", "Complete", "Put"):
                record = members[4 if name == "Put" else 3]
                if not in_set(of_thread[members[0]].records, record):
                    raise SystemExit(f"{where}: record {record} of thread {members[0]} is not in the list")
    if contents.num_circuits_1.value:
        of_circuit = {circuit.number.value: circuit for circuit in contents.circuits}
        for name, members in facts:
            if name in ("CaPut", "PvaPut", "PvaMonitor") and not in_set(of_circuit[members[0]].channels, members[1]):
                raise SystemExit(f"{where}: channel {members[1]} is not in the list")
    for name, members in facts:
        if name in ("PactCheck", "FieldValue", "Snapshot", "Properties") and not in_set(contents.readings, members[0]):
            raise SystemExit(f"{where}: record {members[0]} is not among the readings")


def compare(iocrec, schema, path):
    with open(path, "rb") as file:
        data = file.read()
    segment = iocrec(KaitaiStream(io.BytesIO(data)))
    for header in segment.headers:
        check(f"{path}: tag", header.tag, zlib.crc32(data[:76]))
    blocks = list(reader.blocks(data))
    check(f"{path}: blocks", len(segment.blocks), len(blocks))
    lists = 0
    for block, (fields, body) in zip(segment.blocks, blocks):
        head = block.header
        where = f"{path}, block {head.sequence}"
        flags = sum(1 << bit for bit, name in enumerate(FLAGS) if getattr(head.flags, name))
        ours = (head.tag, head.sequence, flags, head.encoding.value, head.len_unpacked, head.len_body)
        ours += (head.num_events, head.earliest, head.latest, head.crc_body, head.crc_header)
        check(where, ours, tuple(fields[1:]))  # its first field is the magic
        raw = reader.unpack(block.frames, head.len_unpacked)
        check(f"{where}: unpacked", raw, reader.unpack(body, fields[5]))
        read = {1: reader.times_facts, 2: reader.columns}[fields[4]]
        facts = [fact for _, fact in read(schema, raw, fields[7], fields[8])]
        if head.encoding == iocrec.Encoding.columns:
            columns = iocrec.Columns(KaitaiStream(io.BytesIO(raw)), None, segment)
            parts = b"".join(columns.columns)
            check(f"{where}: columns", raw.endswith(parts) and len(parts), sum(n.value for n in columns.lengths))
            check(f"{where}: shapes", len(columns.columns[8]), head.num_events)
        if head.flags.has_contents:
            lists += 1
            check(
                f"{where}: list's checksum", block.contents.crc, zlib.crc32(body[8 : 8 + block.contents.len_frame - 4])
            )
            check_contents(where, block.contents.list, facts)
    print(f"{path}: {len(blocks)} blocks, {lists} lists of contents")


def main():
    compiler, description, page, *segments = sys.argv[1:]
    iocrec = compile_description(compiler, description)
    with open(page, encoding="utf-8") as file:
        schema = reader.Schema(file.read())
    for number, (name, _) in enumerate(schema.facts):
        KINDS[name] = number
    for segment in segments:
        compare(iocrec, schema, segment)


if __name__ == "__main__":
    main()
