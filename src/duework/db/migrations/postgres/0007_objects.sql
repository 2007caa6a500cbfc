-- Durable objects: a private SQLite database each, kept here as pages of 4 KB.
-- Names sort by their bytes, as on SQLite: lists are read by ranges of them.

create table duework_object (
    id bigint primary key,
    kind text collate "C" not null,     -- the class, by the name it is registered under
    key text collate "C" not null,
    version bigint not null,            -- raised by every commit that changed it
    pages bigint not null,              -- how many it has
    alarm bigint,                       -- the job that is its alarm
    created bigint not null,
    changed bigint not null,
    unique (kind, key)
) with (fillfactor = 70);

create table duework_object_page (
    object bigint not null,
    number bigint not null,             -- from 1
    bytes bytea not null,
    primary key (object, number)
);

-- Who runs an async method of an object, which need not exist yet.
create table duework_object_lease (
    kind text collate "C" not null,
    key text collate "C" not null,
    holder bigint not null,             -- drawn for the call
    until bigint not null,
    wanted smallint not null default 0, -- somebody in another process waits for it
    job bigint,                         -- of an alarm: its job, and the fence of the
    fence bigint not null default 0,    -- attempt, over which only a later one may take it
    primary key (kind, key)
);
