-- Durable objects: a private SQLite database each, kept here as pages of 4 KB.

create table duework_object (
    id integer primary key,
    kind text not null,                 -- the class, by the name it is registered under
    key text not null,
    version integer not null,           -- raised by every commit that changed it
    pages integer not null,             -- how many it has
    alarm integer,                      -- the job that is its alarm
    created integer not null,
    changed integer not null,
    unique (kind, key)
) strict;

create table duework_object_page (
    object integer not null,
    number integer not null,            -- from 1
    bytes blob not null,
    primary key (object, number)
) strict, without rowid;

-- Who runs an async method of an object, which need not exist yet.
create table duework_object_lease (
    kind text not null,
    key text not null,
    holder integer not null,            -- drawn for the call
    until integer not null,
    wanted integer not null default 0,  -- somebody in another process waits for it
    job integer,                        -- of an alarm: its job, and the fence of the
    fence integer not null default 0,   -- attempt, over which only a later one may take it
    primary key (kind, key)
) strict, without rowid;
