-- Overrides for PostgreSQL.

-- name: insert_job
-- Differs: many rows are given as arrays, one for each column.
insert into duework_event_job (event, subscriber, job, at, parked)
select * from unnest(:event::bigint[], :subscriber::text[], :job::bigint[], :at::bigint[], :parked::bigint[])
