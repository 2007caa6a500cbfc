-- name: add
-- Differs: many rows are arrays. They come sorted, and are locked in that order.
insert into duework_metric (span, name, start, labels, kind, count, total, most)
select * from unnest(:span::bigint[], :name::text[], :start::bigint[], :labels::text[], :kind::text[],
                     :count::bigint[], :total::double precision[], :most::double precision[])
on conflict (span, name, start, labels) do update
set count = duework_metric.count + excluded.count,
    total = duework_metric.total + excluded.total,
    most = greatest(duework_metric.most, excluded.most)
