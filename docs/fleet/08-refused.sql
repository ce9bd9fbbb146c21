-- Who is refused, and where? (Of puts of unknown outcome nothing is said.)
SELECT "user", client_host, status, count(*) AS puts, count(DISTINCT pv) AS pvs
FROM puts
WHERE from_outside AND status <> 'ok' AND status <> 'unknown'
GROUP BY "user", client_host, status
ORDER BY puts DESC, "user", client_host, status
