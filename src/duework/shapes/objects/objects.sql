-- Every statement of durable objects. Statements with pages are given many rows at a time.

-- name: load
-- The object and its pages in one statement, so that they belong together on either database.
select o.id, o.version, o.pages, o.alarm, p.bytes
from duework_object o
left join duework_object_page p on p.object = o.id
where o.kind = :kind and o.key = :key
order by p.number

-- name: find
select id, version, pages, alarm from duework_object where kind = :kind and key = :key

-- name: versions
select id, version from duework_object
where id in (select value from json_each(:ids))

-- name: lock_versions
-- The same under lock, in the order in which every transaction locks them.
select id, version from duework_object
where id in (select value from json_each(:ids))
order by id
/*+ for update */

-- name: create
-- Does nothing if another transaction was first.
insert into duework_object (id, kind, key, version, pages, created, changed)
values (:id, :kind, :key, 1, :pages, :now, :now)
on conflict (kind, key) do nothing

-- name: change
update duework_object
set version = version + 1, pages = :pages, changed = :now
where id = :id

-- name: write_pages
insert into duework_object_page (object, number, bytes)
values (:object, :number, :bytes)
on conflict (object, number) do update set bytes = excluded.bytes

-- name: cut_pages
-- What is behind the last page.
delete from duework_object_page where object = :object and number > :pages

-- name: remove
delete from duework_object where id = :id

-- name: alarm_is
update duework_object set alarm = :alarm where id = :id

-- name: alarm_of
select alarm from duework_object where kind = :kind and key = :key

-- name: alarm_is_over
-- Unless the next one has been set meanwhile.
update duework_object set alarm = null where kind = :kind and key = :key and alarm = :job

-- name: take_lease
-- Nothing is returned while another call holds it. An earlier attempt of the same alarm does not: the
-- kernel has found that it has ended.
insert into duework_object_lease (kind, key, holder, until, job, fence)
values (:kind, :key, :holder, :until, :job, :fence)
on conflict (kind, key) do update
set holder = excluded.holder, until = excluded.until, wanted = 0, job = excluded.job,
    fence = excluded.fence
where duework_object_lease.until <= :now or duework_object_lease.holder = excluded.holder
   or (duework_object_lease.job = excluded.job and duework_object_lease.fence < excluded.fence)
returning holder

-- name: want_lease
-- Whoever holds it may have a line of others behind it, and would not let us in by itself.
update duework_object_lease set wanted = 1 where kind = :kind and key = :key

-- name: leased
select 1 from duework_object_lease
where kind = :kind and key = :key and holder <> :holder and until > :now

-- name: extend_lease
update duework_object_lease
set until = :until
where kind = :kind and key = :key and holder = :holder

-- name: drop_lease
delete from duework_object_lease
where kind = :kind and key = :key and holder = :holder
returning wanted

-- name: end_lease
-- The object was deleted, and not by the one that holds it.
delete from duework_object_lease
where kind = :kind and key = :key and holder <> :holder

-- name: lease_holder
select holder from duework_object_lease where kind = :kind and key = :key
/*+ for update */

-- name: listed
-- One page, by kind and key; go on with the last of them. Alarms and leases are looked up for that page.
select o.kind, o.key, o.version, o.pages, o.created, o.changed, j.due, j.failures, j.error,
       l.holder
from (select * from duework_object
      where (kind, key) > (:kind, :key)
      order by kind, key
      limit :wanted) o
left join duework_job j on j.id = o.alarm
left join duework_object_lease l on l.kind = o.kind and l.key = o.key and l.until > :now
order by o.kind, o.key

-- name: listed_of
-- The same for one kind, and keys between two.
select o.kind, o.key, o.version, o.pages, o.created, o.changed, j.due, j.failures, j.error,
       l.holder
from (select * from duework_object
      where kind = :kind and key > :key and key >= :first and key < :last
      order by key
      limit :wanted) o
left join duework_job j on j.id = o.alarm
left join duework_object_lease l on l.kind = o.kind and l.key = o.key and l.until > :now
order by o.key

-- name: shown
select o.kind, o.key, o.version, o.pages, o.created, o.changed, j.due, j.failures, j.error,
       l.holder
from duework_object o
left join duework_job j on j.id = o.alarm
left join duework_object_lease l on l.kind = o.kind and l.key = o.key and l.until > :now
where o.kind = :kind and o.key = :key
