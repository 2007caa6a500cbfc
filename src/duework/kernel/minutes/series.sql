-- The statements on what users count. The table comes with shapes/metrics.

-- name: add
insert into duework_metric (span, name, start, labels, kind, count, total, most)
values (:span, :name, :start, :labels, :kind, :count, :total, :most)
on conflict (span, name, start, labels) do update
set count = duework_metric.count + excluded.count,
    total = duework_metric.total + excluded.total,
    most = case when excluded.most > duework_metric.most then excluded.most else duework_metric.most end

-- name: points
select start, labels, kind, count, total, most from duework_metric
where span = :span and name = :name and start >= :since
order by start, labels
limit :wanted

-- name: totals
select name, labels, kind, count, total, most from duework_metric
where span = 0
order by name, start, labels
limit :wanted

-- name: forget
-- Rows of before a time, a chunk at a time.
delete from duework_metric
where (span, name, start, labels) in (
    select span, name, start, labels from duework_metric
    where span = :span and start < :before
    order by span, start
    limit :wanted)
