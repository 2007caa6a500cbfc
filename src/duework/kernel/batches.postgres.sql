-- Where PostgreSQL needs another text than batches.sql, and why.

-- name: insert_members
-- Differs: arrays in JSON are read by another function, and their texts have to become numbers.
insert into duework_job (id, lane, task, due, at, payload, checksum, expires, batch)
select (value ->> 0)::bigint, :lane::bigint, :task::text, :at::bigint, :at::bigint, value ->> 1,
       (value ->> 2)::bigint, :expires::bigint, :batch::bigint
from json_array_elements(:rows::json) as r (value)
