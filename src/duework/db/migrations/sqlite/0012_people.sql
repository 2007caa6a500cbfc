-- The people whom parts serve: they sign in by a mailed link, and are no operators.

create table duework_person (
    id integer primary key,
    part text not null,
    email text not null,               -- in small letters
    created integer not null
) strict;
create unique index duework_person_email on duework_person (part, email);

-- A mailed link or a session: known by the SHA-256 of a secret of 256 bits, and by nothing else.
create table duework_pass (
    hash text primary key,
    kind text not null check (kind in ('link', 'session')),
    part text not null,
    email text not null,
    created integer not null,
    expires integer not null
) strict, without rowid;
create index duework_pass_email on duework_pass (part, email);
create index duework_pass_expires on duework_pass (expires);
