-- Tokens, links and sessions, and the audit. A secret is never here, only its hash.

-- name: add
insert into duework_token (hash, kind, name, scope, created, expires, parent)
values (:hash, :kind, :name, :scope, :created, :expires, :parent)
on conflict do nothing
returning hash

-- name: add_first
-- The token of the first start: only where there has never been one.
insert into duework_token (hash, kind, name, scope, created)
select :hash, 'token', :name, 'admin', :created
where not exists (select 1 from duework_token where kind = 'token')
on conflict do nothing
returning hash

-- name: find
-- With the token that a session was opened with: a session is worth no more than that.
select t.kind, t.name, t.scope, t.expires, t.revoked, t.parent, p.expires, p.revoked
from duework_token t
left join duework_token p on p.hash = t.parent
where t.hash = :hash

-- name: take_link
-- A link opens one session: whoever deletes it has it.
delete from duework_token where hash = :hash and kind = 'link' and expires > :now
returning name, scope

-- name: tokens
select name, scope, created, expires, revoked from duework_token where kind = 'token' order by name

-- name: any_token
select 1 from duework_token where kind = 'token' limit 1

-- name: revoke
update duework_token set revoked = :now
where kind = 'token' and name = :name and revoked is null
returning hash

-- name: end_session
delete from duework_token where hash = :hash and kind = 'session'

-- name: end_sessions_of
delete from duework_token where parent = :hash and parent is not null

-- name: delete_expired
delete from duework_token where kind <> 'token' and expires <= :now

-- name: audit
insert into duework_audit (id, at, who, what, target, why, outcome)
values (:id, :at, :who, :what, :target, :why, :outcome)

-- name: audit_page
-- Newest first.
select id, at, who, what, target, why, outcome
from duework_audit
where id < :before
order by id desc
limit :wanted

-- name: audit_outcome
-- Of an action that could not be one transaction with its line.
update duework_audit set outcome = :outcome where id = :id
