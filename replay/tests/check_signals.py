#!/usr/bin/env python3
"""Checks log records or metrics in OTLP against the official protobuf definitions.

Usage: python3 check_signals.py logs|metrics JSON_LINES PROTOBUF DELIMITED
       python3 check_signals.py logs|metrics PROTOBUF
Needs opentelemetry-proto (PyPI). Decodes strictly: a key that the definitions don't have is an error. The protobuf
files must hold the same as the JSON lines. Prints the count; says what is wrong, and exits with 1.
"""

import json
import math
import sys

from check_otlp import check_values, convert_ids, forbid_constant
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData


def varint(content):
    number = shift = 0
    for place, byte in enumerate(content):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, place + 1
    raise ValueError("a length is cut")


def delimited(content, kind):
    while content:
        length, size = varint(content)
        if size + length > len(content):
            raise ValueError("the last message is cut")
        yield kind.FromString(content[size : size + length])
        content = content[size + length :]


def check_resource(resource, schema):
    keys = [attribute.key for attribute in resource.attributes]
    if "service.name" not in keys or len(set(keys)) != len(keys):
        raise ValueError(f"bad resource: {keys}")
    if not schema:
        raise ValueError("no schemaUrl")


def check_attributes(attributes):
    keys = [attribute.key for attribute in attributes]
    if len(set(keys)) != len(keys):
        raise ValueError(f"an attribute twice: {keys}")
    for attribute in attributes:
        if len({value.WhichOneof("value") for value in attribute.value.array_value.values}) > 1:
            raise ValueError(f"an array of several types: {attribute}")


def check_logs(data):
    count = 0
    for resource in data.resource_logs:
        check_resource(resource.resource, resource.schema_url)
        for record in resource.scope_logs[0].log_records:
            count += 1
            check_attributes(record.attributes)
            if not record.time_unix_nano or not record.event_name or not record.body.string_value:
                raise ValueError(f"time, name or body is missing: {record}")
            if len(record.trace_id) not in (0, 16) or len(record.span_id) not in (0, 8):
                raise ValueError(f"bad ids: {record}")
            if bool(record.trace_id) != bool(record.span_id):
                raise ValueError(f"one id: {record}")
    return count


def check_metrics(data):
    count = 0
    last = {}
    for resource in data.resource_metrics:
        check_resource(resource.resource, resource.schema_url)
        own = resource.resource.SerializeToString(deterministic=True)
        for metric in resource.scope_metrics[0].metrics:
            which = metric.WhichOneof("data")
            points = getattr(metric, which).data_points
            if not metric.name or not metric.unit or not metric.description or not points:
                raise ValueError(f"something is missing: {metric}")
            if which == "sum" and (metric.sum.aggregation_temporality != 2 or not metric.sum.is_monotonic):
                raise ValueError(f"not cumulative and monotonic: {metric.name}")
            for point in points:
                count += 1
                check_attributes(point.attributes)
                value = getattr(point, point.WhichOneof("value"))
                if not math.isfinite(value) or not point.time_unix_nano:
                    raise ValueError(f"bad point of {metric.name}: {point}")
                if which == "sum":
                    if not 0 < point.start_time_unix_nano <= point.time_unix_nano:
                        raise ValueError(f"bad start of {metric.name}: {point}")
                    labels = tuple((label.key, label.value.string_value) for label in point.attributes)
                    series = (own, metric.name, labels)
                    if value < last.get(series, 0):
                        raise ValueError(f"a sum falls: {metric.name} {labels}")
                    last[series] = value
    return count


def check(signal, lines, protobuf=None, framed=None):
    kind, check_data = {"logs": (LogsData, check_logs), "metrics": (MetricsData, check_metrics)}[signal]
    if protobuf is None:
        with open(lines, "rb") as file:
            return check_data(kind.FromString(file.read()))
    batches = []
    with open(lines, encoding="utf-8") as file:
        for line in file:
            node = json.loads(line, parse_constant=forbid_constant)
            check_values(node)
            convert_ids(node)
            batches.append(ParseDict(node, kind(), ignore_unknown_fields=False))
    whole = kind()
    for batch in batches:
        whole.MergeFrom(batch)
    with open(protobuf, "rb") as file:
        if kind.FromString(file.read()) != whole:
            raise ValueError(f"{protobuf} differs from the JSON lines")
    with open(framed, "rb") as file:
        if list(delimited(file.read(), kind)) != batches:
            raise ValueError(f"{framed} differs from the JSON lines")
    return check_data(whole)


if __name__ == "__main__":
    try:
        print(check(*sys.argv[1:]), sys.argv[1])
    except Exception as error:  # whatever the decoder raises
        print(f"check_signals: {error}", file=sys.stderr)
        sys.exit(1)
