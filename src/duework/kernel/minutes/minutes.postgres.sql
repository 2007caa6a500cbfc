-- name: add
-- Differs: many rows are arrays. They come sorted, and are locked in that order.
insert into duework_minute (span, start, queue, task, started, done, failed, cancelled, retried, lag,
                            lag_most, lag_10ms, lag_100ms, lag_1s, lag_10s, lag_1min, lag_more)
select * from unnest(:span::bigint[], :start::bigint[], :queue::text[], :task::text[],
                     :started::bigint[], :done::bigint[], :failed::bigint[], :cancelled::bigint[],
                     :retried::bigint[], :lag::bigint[], :lag_most::bigint[], :lag_10ms::bigint[],
                     :lag_100ms::bigint[], :lag_1s::bigint[], :lag_10s::bigint[], :lag_1min::bigint[],
                     :lag_more::bigint[])
on conflict (span, start, queue, task) do update
set started = duework_minute.started + excluded.started,
    done = duework_minute.done + excluded.done,
    failed = duework_minute.failed + excluded.failed,
    cancelled = duework_minute.cancelled + excluded.cancelled,
    retried = duework_minute.retried + excluded.retried,
    lag = duework_minute.lag + excluded.lag,
    lag_most = greatest(duework_minute.lag_most, excluded.lag_most),
    lag_10ms = duework_minute.lag_10ms + excluded.lag_10ms,
    lag_100ms = duework_minute.lag_100ms + excluded.lag_100ms,
    lag_1s = duework_minute.lag_1s + excluded.lag_1s,
    lag_10s = duework_minute.lag_10s + excluded.lag_10s,
    lag_1min = duework_minute.lag_1min + excluded.lag_1min,
    lag_more = duework_minute.lag_more + excluded.lag_more
