#!/usr/bin/env python3
"""Checks OTLP JSON lines against the official protobuf definitions.

Usage: iocreplay traces LOG --format otlp | python3 check_otlp.py
       python3 check_otlp.py FILE
Needs opentelemetry-proto (PyPI). Decodes strictly: a key that the definitions don't have is an error.
Prints counts; says what is wrong, with its line, and exits with 1.
"""

import base64
import json
import sys

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

ID_BYTES = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def convert_ids(node):
    """OTLP writes ids in hexadecimal where protobuf's own JSON mapping has base64."""
    if isinstance(node, list):
        for item in node:
            convert_ids(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key not in ID_BYTES:
                convert_ids(value)
                continue
            if value != value.lower() or len(value) != 2 * ID_BYTES[key]:
                raise ValueError(f"{key} {value!r} is not {ID_BYTES[key]} bytes in lower-case hexadecimal")
            raw = bytes.fromhex(value)
            if not any(raw):
                raise ValueError(f"{key} is zero")
            node[key] = base64.b64encode(raw).decode()


def check_values(node):
    """No empty AnyValue: some receivers drop it, others refuse it."""
    if isinstance(node, list):
        for item in node:
            check_values(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "value" and isinstance(value, dict) and len(value) != 1:
                raise ValueError(f"not exactly one value: {value}")
            check_values(value)


def forbid_constant(name):
    raise ValueError(f"{name} is not JSON")


def spans_of(data):
    for resource in data.resource_spans:
        keys = {attribute.key for attribute in resource.resource.attributes}
        if "service.name" not in keys:
            raise ValueError("a resource without service.name")
        for scope in resource.scope_spans:
            yield from scope.spans


def check_trace(data):
    """One line: its spans' ids, parents and times. Gives how many spans it has."""
    spans = list(spans_of(data))
    ids = {span.span_id for span in spans}
    if not spans:
        raise ValueError("no spans")
    if len(ids) != len(spans):
        raise ValueError("a span id twice")
    if len({span.trace_id for span in spans}) != 1:
        raise ValueError("several traces on a line")
    roots = [span for span in spans if not span.parent_span_id]
    if len(roots) != 1:
        raise ValueError(f"{len(roots)} roots")
    for span in spans:
        if not span.name:
            raise ValueError("a span without a name")
        if span.parent_span_id and span.parent_span_id not in ids:
            raise ValueError(f"{span.name}: its parent does not exist")
        if span.start_time_unix_nano == 0 or span.end_time_unix_nano < span.start_time_unix_nano:
            raise ValueError(f"{span.name}: bad times")
        if span.kind == 0:
            raise ValueError(f"{span.name}: no kind")
        keys = [attribute.key for attribute in span.attributes]
        if len(set(keys)) != len(keys):
            raise ValueError(f"{span.name}: an attribute twice")
    return len(spans)


def check(lines):
    traces = spans = 0
    trace_ids = set()
    for number, line in enumerate(lines, 1):
        try:
            node = json.loads(line, parse_constant=forbid_constant)
            check_values(node)
            convert_ids(node)
            data = ParseDict(node, TracesData(), ignore_unknown_fields=False)
            spans += check_trace(data)
            trace_id = next(spans_of(data)).trace_id
            if trace_id in trace_ids:
                raise ValueError("a trace id that was there before")
            trace_ids.add(trace_id)
        except Exception as error:  # whatever the decoder raises, the line is what matters
            print(f"check_otlp: line {number}: {error}", file=sys.stderr)
            return 1
        traces += 1
    print(f"{traces} traces, {spans} spans")
    return 0


def main():
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as lines:
            return check(lines)
    return check(sys.stdin)


if __name__ == "__main__":
    sys.exit(main())
