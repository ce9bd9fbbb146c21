-- PVs that users fight over: puts within 10 s after another user's, ten times or more. X, X.VAL and an alias of X are one.
SELECT host, target AS pv, count(*) AS takeovers, count(DISTINCT "user") AS users
FROM (
    SELECT host, target, "user", time_ns,
           max("user") OVER (PARTITION BY host, target ORDER BY time_ns ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS user_before,
           max(time_ns) OVER (PARTITION BY host, target ORDER BY time_ns ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS time_before
    FROM (
        SELECT host, "user", time_ns,
               CASE WHEN record IS NULL OR field IS NULL THEN pv
                    WHEN field = 'VAL' THEN record
                    ELSE record || '.' || field END AS target
        FROM puts
        WHERE from_outside
    ) written
) p
WHERE user_before <> "user" AND time_ns - time_before < 10000000000
GROUP BY host, target
HAVING count(*) >= 10
ORDER BY takeovers DESC, host, pv
