-- PVs that users fight over: puts within 10 s after another user's, ten times or more.
SELECT pv, count(*) AS takeovers, count(DISTINCT "user") AS users
FROM (
    SELECT pv, "user", time_ns,
           max("user") OVER (PARTITION BY pv ORDER BY time_ns ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS user_before,
           max(time_ns) OVER (PARTITION BY pv ORDER BY time_ns ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS time_before
    FROM puts
    WHERE from_outside
) p
WHERE user_before <> "user" AND time_ns - time_before < 10000000000
GROUP BY pv
HAVING count(*) >= 10
ORDER BY takeovers DESC, pv
