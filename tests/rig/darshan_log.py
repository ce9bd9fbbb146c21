"""Opens a Darshan log with Darshan's own reader and prints its POSIX records as a JSON object by file name.

With a second argument also writes Darshan's summary into that file, by the code of `python -m darshan summary`.
"""

import json
import sys

import darshan

report = darshan.DarshanReport(sys.argv[1], read_all=True)
tables = report.records["POSIX"].to_df()
files = {}
# not row by row: pandas would make floating-point numbers of the ids
records = zip(tables["counters"].to_dict("records"), tables["fcounters"].to_dict("records"), strict=True)
for counters, times in records:
    name = report.name_records[int(counters["id"])]
    numbers = {key: int(value) for key, value in counters.items() if key.startswith("POSIX_")}
    files[name] = numbers | {key: float(value) for key, value in times.items() if key.startswith("POSIX_")}
job = report.metadata["job"]
print(json.dumps({"files": files, "nprocs": job["nprocs"], "exe": report.metadata["exe"]}))
if len(sys.argv) > 2:
    from darshan.cli import summary

    sys.argv[1:] = [sys.argv[1], "--output", sys.argv[2]]
    summary.main()
