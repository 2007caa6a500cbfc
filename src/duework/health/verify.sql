-- What `verify` looks at besides the invariants, which are in checks.sql of the kernel and of each shape.

-- name: payloads
-- A chunk of rows, newest first, to compare with their checksums.
select id, task, payload, checksum
from duework_job
where id < :before
order by id desc
limit :bound

-- name: integrity
pragma integrity_check

-- name: foreign_keys
pragma foreign_key_check
