-- The kernel's tables. `duework_job` is the one idea: a row with a due time.
--
-- A job is claimable when it is open, not leased and due, and its lane is due. A claim names the
-- worker and moves `due` to the lease's end; a settle moves it to the end of the row's retention.

create table duework_lane (
    id integer primary key,
    queue text not null,
    task text not null,
    tier text not null default '',
    share text not null default '',
    priority integer not null check (priority between 0 and 9),
    alone integer not null default 0,  -- its jobs were running when a worker died: one at a time
    due integer not null default 0,
    pace text,  -- the pace that it waits for, or last waited for
    unique (queue, task, tier, share, priority, alone)
) strict;

create table duework_job (
    id integer primary key,
    lane integer not null,
    task text not null,
    key text,
    state text not null default 'open' check (state in ('open', 'done', 'failed', 'cancelled')),
    due integer not null,               -- claimable from; leased: the lease's end; settled: kept until
    at integer not null,                -- the time that was asked for; never moved
    fence integer not null default 0,   -- raised by every claim
    worker integer,                     -- null unless leased
    failures integer not null default 0,
    crashes integer not null default 0, -- crashes of attempts that ran alone
    linked integer not null default 0,  -- settling it touches more than this row
    payload text not null,
    checksum integer not null,
    result text,
    error text,
    expires integer,
    serial text,
    after integer,
    again text,                         -- payload of the run that a second enqueue asked for
    marked text,                        -- why it is to be cancelled while it runs
    owner text,                         -- the shape it belongs to, as kind:id
    progress text,
    settled integer,
    batch integer,                      -- the batch it is a member of
    slot integer,                     -- when its pace promised to admit it, and the
    slot_fence integer,               -- fence of the claim that was told so
    check ((state = 'open') = (settled is null)),
    check (worker is null or state = 'open')
) strict;

create index duework_job_ready on duework_job (lane, due) where state = 'open' and worker is null;
create index duework_job_leased on duework_job (due, lane, batch) where worker is not null;
create index duework_job_kept on duework_job (due) where state <> 'open';
create index duework_job_failed on duework_job (id) where state = 'failed';
create unique index duework_job_key on duework_job (task, key) where state = 'open' and key is not null;
create index duework_job_serial on duework_job (serial, due) where state = 'open' and serial is not null;
create index duework_job_after on duework_job (after) where state = 'open' and after is not null;
create index duework_job_batch on duework_job (batch) where batch is not null;
create index duework_job_batch_failed on duework_job (batch)
    where state = 'failed' and batch is not null;
create index duework_job_marked on duework_job (worker) where marked is not null and worker is not null;

-- One row for each attempt that did not end well; a job that succeeds at once has none.
create table duework_attempt (
    job integer not null,
    fence integer not null,
    outcome text not null,
    worker integer,
    started integer,
    ended integer not null,
    error text,
    primary key (job, fence)
) strict, without rowid;

-- Keys that admit one job for longer than it is open.
create table duework_once (
    task text not null,
    key text not null,
    job integer not null,
    until integer not null,
    primary key (task, key)
) strict, without rowid;
create index duework_once_until on duework_once (until);

-- Processes that hold leases: how to tell, on their host, that they are gone.
create table duework_worker (
    id integer primary key,
    host text not null,
    boot text not null,
    space text not null,
    pid integer not null,
    born integer not null,
    started integer not null
) strict;

-- Queues that are paused; '*' is all of them.
create table duework_pause (
    queue text primary key
) strict, without rowid;

-- The last group that each writer committed: decides a COMMIT whose answer was lost.
create table duework_mark (
    process integer primary key,
    number integer not null
) strict;

create table duework_meta (
    name text primary key,
    value text not null
) strict, without rowid;

-- What admits jobs: rates, ticks, quotas. One row each, or one for each value of an argument.
create table duework_pace (
    name text primary key,
    kind text not null,
    state text not null default '{}',
    used integer not null default 0,     -- taken in the present window, and the most that may be
    most integer not null default 0,
    blocked integer not null default 0,  -- nothing is admitted until then
    idle integer,                       -- as good as no row from then on
    changed integer not null
) strict, without rowid;
create index duework_pace_idle on duework_pace (idle);
