-- How long do chains take that a put began, by version of EPICS Base?
SELECT i.base_version AS base_version, count(*) AS chains, avg(c.duration_ns) AS mean_ns, max(c.duration_ns) AS longest_ns
FROM chains c
JOIN (
    SELECT run, ioc, max(base_version) AS base_version FROM iocs GROUP BY run, ioc
) i ON c.run = i.run AND c.ioc = i.ioc
WHERE c."trigger" = 'put'
GROUP BY i.base_version
ORDER BY mean_ns DESC, base_version
