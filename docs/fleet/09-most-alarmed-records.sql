-- The records that go into alarm most often, and how long they were in it.
SELECT host, record, count(*) AS times, sum(lasted_ns) AS lasted_ns
FROM alarms
WHERE what = 'change' AND severity_num > 0
GROUP BY host, record
ORDER BY times DESC, host, record
LIMIT 50
