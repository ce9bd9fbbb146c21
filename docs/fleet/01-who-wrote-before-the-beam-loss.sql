-- Who wrote to anything of cell 7 within 10 s before the beam was lost?
SELECT loss.time_ns AS lost_ns, p.time_ns AS time_ns, p.pv AS pv, p."user" AS "user", p.client_host AS client_host,
       p.requested_num AS requested, p.status AS status
FROM puts p
CROSS JOIN (
    SELECT time_ns FROM alarms WHERE record = 'RING:BEAM' AND severity = 'MAJOR' AND what = 'change'
) loss
WHERE p.from_outside
  AND p.pv LIKE 'CELL07:%'
  AND p.time_ns > loss.time_ns - 10000000000
  AND p.time_ns <= loss.time_ns
ORDER BY lost_ns, time_ns, pv
