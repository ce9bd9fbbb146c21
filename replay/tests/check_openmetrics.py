#!/usr/bin/env python3
"""Reads OpenMetrics text with Prometheus' own parser, which is strict.

Usage: python3 check_openmetrics.py FILE
Needs prometheus_client (PyPI). Prints each sample as JSON: name, labels, time, number. Exits with 1 if the file is not
valid.
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families


def main():
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        text = file.read()
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        print(f"check_openmetrics: {error}", file=sys.stderr)
        return 1
    for family in families:
        for sample in family.samples:
            print(json.dumps([sample.name, sample.labels, float(sample.timestamp), sample.value]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
