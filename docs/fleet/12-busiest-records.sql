-- The records that process most often in what was recorded, and how long they take.
SELECT host, record, count(*) AS times, sum(duration_ns) AS total_ns, max(duration_ns) AS longest_ns
FROM processing
WHERE outcome = 'completed'
GROUP BY host, record
ORDER BY times DESC, host, record
LIMIT 50
