-- The people of parts, their links and sessions. A secret is never here, only its hash.

-- name: find
select id, part, email from duework_person where part = :part and email = :email

-- name: get
select id, part, email from duework_person where part = :part and id = :id

-- name: add
insert into duework_person (id, part, email, created) values (:id, :part, :email, :now)
on conflict (part, email) do nothing

-- name: add_pass
insert into duework_pass (hash, kind, part, email, created, expires)
values (:hash, :kind, :part, :email, :now, :expires)

-- name: open_links
-- How many links of one address are still good; it is asked for no more than a few.
select count(*) from (
    select 1 from duework_pass
    where part = :part and email = :email and kind = 'link' and expires > :now
    limit :most
) found

-- name: take_link
-- A link opens one session: whoever deletes it has it.
delete from duework_pass where hash = :hash and kind = 'link' and part = :part and expires > :now
returning email

-- name: of_session
select p.id, p.part, p.email
from duework_pass s
join duework_person p on p.part = s.part and p.email = s.email
where s.hash = :hash and s.kind = 'session' and s.part = :part and s.expires > :now

-- name: end_session
delete from duework_pass where hash = :hash and kind = 'session'

-- name: delete_expired
delete from duework_pass where expires <= :now

-- name: forget
delete from duework_person where part = :part and id = :id returning email

-- name: forget_passes
delete from duework_pass where part = :part and email = :email
