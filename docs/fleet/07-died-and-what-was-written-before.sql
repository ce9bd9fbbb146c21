-- IOCs that died, and what was written in the minute before.
SELECT i.host AS host, i.ioc AS ioc, i."end" AS ended_how, p.time_ns AS time_ns, p.pv AS pv, p."user" AS "user",
       p.requested_num AS requested
FROM (
    SELECT run, host, ioc, "end", max(time_ns) AS ended_ns FROM iocs WHERE ended IS NOT NULL GROUP BY run, host, ioc, "end"
) i
JOIN puts p ON p.run = i.run AND p.ioc = i.ioc
WHERE p.from_outside AND p.time_ns > i.ended_ns - 60000000000 AND p.time_ns <= i.ended_ns
ORDER BY host, ioc, time_ns, pv
