-- Alarm storms by cause: what sent five records or more into alarm within the same second?
SELECT host, second_ns, cause, count(DISTINCT record) AS records
FROM (
    SELECT host, time_ns - time_ns % 1000000000 AS second_ns, cause, record
    FROM alarms
    WHERE what = 'change' AND severity_num > 0
) a
GROUP BY host, second_ns, cause
HAVING count(DISTINCT record) >= 5
ORDER BY records DESC, second_ns, host, cause
