"""Chains out of OTLP JSON lines: the program writes each chain whole, in one line, maybe among others."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from iocreplay._rows import Chain, Span

_ERROR = 2  # STATUS_CODE_ERROR of OpenTelemetry


def _value(any_value: Mapping[str, Any]) -> Any:
    """A value of an attribute."""
    ((kind, value),) = any_value.items()
    if kind == "intValue":
        return int(value)
    if kind == "arrayValue":
        return [_value(element) for element in value.get("values", [])]
    return value


def _attributes(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in pairs}


def chains(lines: Iterable[Mapping[str, Any]]) -> Iterator[Chain]:
    """The chains in order of time, by line."""
    for line in lines:
        spans: dict[str, list[Span]] = {}
        for of_resource in line["resourceSpans"]:
            resource = _attributes(of_resource["resource"].get("attributes", []))
            for of_scope in of_resource["scopeSpans"]:
                for span in of_scope["spans"]:
                    spans.setdefault(span["traceId"], []).append(
                        Span(
                            id=span["spanId"],
                            parent=span.get("parentSpanId") or None,
                            name=span["name"],
                            start_ns=int(span.get("startTimeUnixNano", 0)),
                            end_ns=int(span.get("endTimeUnixNano", 0)),
                            ioc=resource.get("service.name"),
                            host=resource.get("host.name"),
                            failed=span.get("status", {}).get("code", 0) == _ERROR,
                            attributes=_attributes(span.get("attributes", [])),
                        )
                    )
        made = []
        for number, of_chain in spans.items():
            # the root has no parent; the others by time, so that a batch's grouping by IOC does not show
            of_chain.sort(key=lambda span: (span.parent is not None, span.start_ns))
            made.append(Chain(id=number, spans=tuple(of_chain)))
        made.sort(key=lambda chain: chain.time_ns)
        yield from made
