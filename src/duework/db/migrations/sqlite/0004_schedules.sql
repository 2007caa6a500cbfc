-- A schedule is a row that re-arms itself: `job` is an open job of the engine's own, due at `due`.

create table duework_schedule (
    key text primary key,
    task text not null,
    queue text not null,
    priority integer not null,
    payload text not null,
    kind text not null check (kind in ('cron', 'every', 'rrule', 'at')),
    rule text not null,
    start integer not null,
    tz text not null,
    missed text not null check (missed in ('skip', 'once', 'all')),
    missed_limit integer not null,
    overlap text not null check (overlap in ('skip', 'queue', 'replace')),
    idle integer not null default 0,    -- a check of its task's own decides whether there is work
    state text not null default 'active' check (state in ('active', 'paused', 'ended', 'deleted')),
    slot integer,                         -- the planned time that is next
    due integer,                          -- when that is fired: then, or later if it was postponed
    job integer,                          -- the open job that fires it
    last_slot integer,                    -- the newest slot that was fired, skipped or idle
    last_at integer,                      -- when that was
    last_job integer,                     -- the newest job that it made
    last_outcome text,                   -- fired, missed, overlap, idle
    fires integer not null default 0,
    idles integer not null default 0,
    skips integer not null default 0,
    declared text,                       -- as the code gave it; null if no code has
    decorated integer not null default 0,  -- by a decorator, so the code can take it back
    edited integer not null default 0,  -- an operator has changed it: the code no longer does
    owner text not null default '',
    why text not null default '',
    error text,
    created integer not null,
    check (state = 'active' or due is null),
    check ((slot is null) = (due is null))
) strict, without rowid;
