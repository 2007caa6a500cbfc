-- name: seal
insert into duework_secret (name, key, sealed, updated) values (:name, :key, :sealed, :updated)
on conflict (name) do update set key = excluded.key, sealed = excluded.sealed, updated = excluded.updated;

-- name: sealed
select key, sealed from duework_secret where name = :name;

-- name: forget
delete from duework_secret where name = :name returning name;

-- name: names
select name from duework_secret where substr(name, 1, :length) = :prefix;

-- name: others
-- Some that another key sealed; nobody changes them until this transaction ends.
select name, key, sealed from duework_secret where key <> :key order by name limit :count /*+ for update */;

-- name: other
select name from duework_secret where key <> :key limit 1;

-- name: any
select name from duework_secret limit 1;
