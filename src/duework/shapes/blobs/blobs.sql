-- The statements of blobs. Whoever needs both locks the blob before the trash.

-- name: begin
-- Before a content is written: if its process dies, it will be found here.
insert into duework_blob_trash (content, due, doomed) values (:content, :due, 0)

-- name: keep
-- Nothing is returned if it was so late that its content is being deleted.
delete from duework_blob_trash where content = :content and doomed = 0 returning content

-- name: discard
insert into duework_blob_trash (content, due, doomed) values (:content, :due, 0)

-- name: insert
-- Nothing is returned if there is one of that name.
insert into duework_blob (name, content, size, digest, kind, about, created, due)
values (:name, :content, :size, :digest, :kind, :about, :created, :due)
on conflict (name) do nothing
returning name

-- name: lock
select name, content, size, digest, kind, about, created, due from duework_blob
where name = :name
/*+ for update */

-- name: replace
update duework_blob
set content = :content, size = :size, digest = :digest, kind = :kind, about = :about,
    created = :created, due = :due
where name = :name

-- name: find
select name, content, size, digest, kind, about, created, due from duework_blob
where name = :name and due > :now

-- name: listed
select name, content, size, digest, kind, about, created, due from duework_blob
where name >= :prefix and name > :after and substr(name, 1, cast(:length as int)) = :prefix and due > :now
order by name
limit :wanted

-- name: delete
delete from duework_blob where name = :name returning content, due

-- name: over
delete from duework_blob
where name in (
    select name from duework_blob where due <= :now order by due limit :wanted
    /*+ for update */
)
returning content

-- name: anything_due
select (select count(*) from (select 1 from duework_blob where due <= :now limit 1) b)
    + (select count(*) from (select 1 from duework_blob_trash where due <= :now limit 1) t)

-- name: doom
-- From here on nobody may keep them: then they are deleted, and then the row.
update duework_blob_trash set doomed = 1
where content in (
    select content from duework_blob_trash where due <= :now order by due limit :wanted
    /*+ for update */
)
returning content

-- name: forget
delete from duework_blob_trash
where doomed = 1 and content in (select value from json_each(:contents))
