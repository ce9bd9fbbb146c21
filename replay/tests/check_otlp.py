#!/usr/bin/env python3
"""Checks OTLP against the official protobuf definitions.

Usage: iocreplay traces LOG --format otlp | python3 check_otlp.py
       python3 check_otlp.py JSON_LINES [PROTOBUF DELIMITED]
Needs opentelemetry-proto (PyPI). Decodes strictly: a key that the definitions don't have is an error. The files of the
formats otlp-proto and otlp-proto-delimited must hold the same as the JSON lines.
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
    """No empty AnyValue: some receivers drop it, others refuse it. An array has elements of one type."""
    if isinstance(node, list):
        for item in node:
            check_values(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "value" and isinstance(value, dict) and len(value) != 1:
                raise ValueError(f"not exactly one value: {value}")
            if key == "arrayValue" and len({kind for of in value["values"] for kind in of}) > 1:
                raise ValueError(f"an array of several types: {value}")
            check_values(value)


def forbid_constant(name):
    raise ValueError(f"{name} is not JSON")


def traces_of(data):
    """The spans of each trace of a batch. A resource stands once in it."""
    traces = {}
    resources = set()
    for resource in data.resource_spans:
        keys = {attribute.key for attribute in resource.resource.attributes}
        if "service.name" not in keys:
            raise ValueError("a resource without service.name")
        if not resource.schema_url:
            raise ValueError("a resource without schemaUrl")
        if (own := resource.resource.SerializeToString(deterministic=True)) in resources:
            raise ValueError("a resource twice")
        resources.add(own)
        for scope in resource.scope_spans:
            for span in scope.spans:
                traces.setdefault(span.trace_id, []).append(span)
    if not traces:
        raise ValueError("no spans")
    return traces


def check_trace(spans):
    """A trace: its spans' ids, parents and times."""
    ids = {span.span_id for span in spans}
    if len(ids) != len(spans):
        raise ValueError("a span id twice")
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


def delimited(content):
    """The messages of a file, each of which stands after its length as a varint."""
    while content:
        length = shift = 0
        while True:
            length |= (content[0] & 0x7F) << shift
            shift += 7
            content, last = content[1:], content[0] < 0x80
            if last:
                break
        if length > len(content):
            raise ValueError("the last message is cut")
        yield TracesData.FromString(content[:length])
        content = content[length:]


def check_same(batches, protobuf, framed):
    """Whether the two files of protobuf hold these batches."""
    with open(framed, "rb") as file:
        if list(delimited(file.read())) != batches:
            raise ValueError(f"{framed} differs from the JSON lines")
    whole = TracesData()
    for batch in batches:
        whole.MergeFrom(batch)
    with open(protobuf, "rb") as file:
        if TracesData.FromString(file.read()) != whole:
            raise ValueError(f"{protobuf} differs from the JSON lines")


def check(lines, files):
    traces = spans = 0
    trace_ids = set()
    batches = []
    for number, line in enumerate(lines, 1):
        try:
            node = json.loads(line, parse_constant=forbid_constant)
            check_values(node)
            convert_ids(node)
            data = ParseDict(node, TracesData(), ignore_unknown_fields=False)
            for trace_id, of_trace in traces_of(data).items():
                check_trace(of_trace)
                if trace_id in trace_ids:
                    raise ValueError("a trace id that was there before")
                trace_ids.add(trace_id)
                traces += 1
                spans += len(of_trace)
            if files:
                batches.append(data)
        except Exception as error:  # whatever the decoder raises, the line is what matters
            print(f"check_otlp: line {number}: {error}", file=sys.stderr)
            return 1
    if files:
        try:
            check_same(batches, *files)
        except Exception as error:  # as above
            print(f"check_otlp: {error}", file=sys.stderr)
            return 1
    print(f"{traces} traces, {spans} spans")
    return 0


def main():
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as lines:
            return check(lines, sys.argv[2:])
    return check(sys.stdin, [])


if __name__ == "__main__":
    sys.exit(main())
