-- Which versions of EPICS Base run where?
SELECT base_version, kernel, count(DISTINCT host) AS hosts, count(*) AS iocs, sum(records) AS records
FROM iocs
GROUP BY base_version, kernel
ORDER BY base_version, kernel
