-- Who may come through the door of the pages, and what they did there.

-- A token, a login link or a session: known by the SHA-256 of a secret of 256 bits, and by nothing else.
create table duework_token (
    hash text primary key,
    kind text not null check (kind in ('token', 'link', 'session')),
    name text not null,
    scope text not null check (scope in ('read', 'operate', 'admin')),
    created integer not null,
    expires integer,
    revoked integer,
    parent text                        -- of a session: the token that it was opened with
) strict, without rowid;
create unique index duework_token_name on duework_token (name) where kind = 'token';
create index duework_token_parent on duework_token (parent) where parent is not null;
create index duework_token_expires on duework_token (expires) where kind <> 'token';

-- One row for each action of a person, in the transaction of the action itself.
create table duework_audit (
    id integer primary key,
    at integer not null,
    who text not null,
    what text not null,
    target text not null,
    why text not null,
    outcome text not null
) strict;
