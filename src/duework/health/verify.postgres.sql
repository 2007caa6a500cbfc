-- Where PostgreSQL needs another text than verify.sql, and why.

-- name: integrity
-- Differs: PostgreSQL has checksums on its pages and verifies them as it reads.
select 'ok'

-- name: foreign_keys
-- Differs: PostgreSQL cannot hold a row that breaks a foreign key.
select 1 where false
