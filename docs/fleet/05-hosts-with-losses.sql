-- On which hosts is something missing: losses, missing segments, times unrecorded?
SELECT host, kind, source, count(*) AS times, sum(count) AS events, sum(time_ns - since_ns) AS length_ns
FROM losses
WHERE kind <> 'left out'
GROUP BY host, kind, source
ORDER BY host, kind, source
