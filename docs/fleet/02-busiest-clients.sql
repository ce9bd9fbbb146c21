-- Which clients put most at the site?
SELECT "user", client_host, count(*) AS puts, count(DISTINCT pv) AS pvs, count(DISTINCT host) AS hosts
FROM puts
WHERE from_outside
GROUP BY "user", client_host
ORDER BY puts DESC, "user", client_host
LIMIT 20
