-- Puts from outside in each hour (UTC), and by how many users.
SELECT hour_ns, count(*) AS puts, count(DISTINCT "user") AS users
FROM (
    SELECT time_ns - time_ns % 3600000000000 AS hour_ns, "user" FROM puts WHERE from_outside
) p
GROUP BY hour_ns
ORDER BY hour_ns
