-- A schedule is a row that re-arms itself: `job` is an open job of the engine's own, due at `due`.

create table duework_schedule (
    key text collate "C" primary key,
    task text not null,
    queue text not null,
    priority smallint not null,
    payload text not null,
    kind text not null check (kind in ('cron', 'every', 'rrule', 'at')),
    rule text not null,
    start bigint not null,
    tz text not null,
    missed text not null check (missed in ('skip', 'once', 'all')),
    missed_limit bigint not null,
    overlap text not null check (overlap in ('skip', 'queue', 'replace')),
    idle smallint not null default 0,    -- a check of its task's own decides whether there is work
    state text not null default 'active' check (state in ('active', 'paused', 'ended', 'deleted')),
    slot bigint,                         -- the planned time that is next
    due bigint,                          -- when that is fired: then, or later if it was postponed
    job bigint,                          -- the open job that fires it
    last_slot bigint,                    -- the newest slot that was fired, skipped or idle
    last_at bigint,                      -- when that was
    last_job bigint,                     -- the newest job that it made
    last_outcome text,                   -- fired, missed, overlap, idle
    fires bigint not null default 0,
    idles bigint not null default 0,
    skips bigint not null default 0,
    declared text,                       -- as the code gave it; null if no code has
    decorated smallint not null default 0,  -- by a decorator, so the code can take it back
    edited smallint not null default 0,  -- an operator has changed it: the code no longer does
    owner text not null default '',
    why text not null default '',
    error text,
    created bigint not null,
    check (state = 'active' or due is null),
    check ((slot is null) = (due is null))
);
