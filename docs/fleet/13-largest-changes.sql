-- The set points that were moved farthest by one put, and by whom.
SELECT host, pv, "user", time_ns, old_num AS old, new_num AS new
FROM puts
WHERE from_outside AND old_num IS NOT NULL AND new_num IS NOT NULL
ORDER BY abs(new_num - old_num) DESC, time_ns, pv
LIMIT 20
