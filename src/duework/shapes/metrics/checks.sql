-- The invariants of metrics.

-- name: of_metrics
select count(*) from duework_metric where span = 0

-- name: metric_begins_with_its_span
-- Of: metrics
-- Says: a row begins where its minute, hour or day does, and has counted something
select start
from duework_metric
where count < 1 or (span > 0 and start % (span * 60000) <> 0) or (span = 0 and start <> 0)
limit :bound
