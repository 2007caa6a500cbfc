-- Where PostgreSQL needs another text than objects.sql, and why.

-- name: create
-- Differs: many rows in one round trip are arrays.
insert into duework_object (id, kind, key, version, pages, created, changed)
select e.id, e.kind, e.key, 1, e.pages, e.now, e.now
from unnest(:id::bigint[], :kind::text[], :key::text[], :pages::bigint[], :now::bigint[])
     as e (id, kind, key, pages, now)
on conflict (kind, key) do nothing

-- name: change
-- Differs: many rows in one round trip are arrays.
update duework_object o
set version = o.version + 1, pages = e.pages, changed = e.now
from unnest(:pages::bigint[], :now::bigint[], :id::bigint[]) as e (pages, now, id)
where o.id = e.id

-- name: write_pages
-- Differs: many rows in one round trip are arrays.
insert into duework_object_page (object, number, bytes)
select * from unnest(:object::bigint[], :number::bigint[], :bytes::bytea[])
on conflict (object, number) do update set bytes = excluded.bytes

-- name: cut_pages
-- Differs: many rows in one round trip are arrays.
delete from duework_object_page p
using unnest(:object::bigint[], :pages::bigint[]) as e (object, pages)
where p.object = e.object and p.number > e.pages

-- name: remove
-- Differs: many rows in one round trip are arrays.
delete from duework_object o using unnest(:id::bigint[]) as e (id) where o.id = e.id

-- name: alarm_is
-- Differs: many rows in one round trip are arrays.
update duework_object o
set alarm = e.alarm
from unnest(:alarm::bigint[], :id::bigint[]) as e (alarm, id)
where o.id = e.id

-- name: extend_lease
-- Differs: many rows in one round trip are arrays.
update duework_object_lease l
set until = e.until
from unnest(:until::bigint[], :kind::text[], :key::text[], :holder::bigint[])
     as e (until, kind, key, holder)
where l.kind = e.kind and l.key = e.key and l.holder = e.holder
