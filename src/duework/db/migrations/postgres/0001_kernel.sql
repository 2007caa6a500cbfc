-- The kernel's tables. `duework_job` is the one idea: a row with a due time.
--
-- A job is claimable when it is open, not leased and due, and its lane is due. A claim names the
-- worker and moves `due` to the lease's end; a settle moves it to the end of the row's retention.

create table duework_lane (
    id bigint primary key,
    queue text not null,
    task text not null,
    tier text not null default '',
    share text not null default '',
    priority smallint not null check (priority between 0 and 9),
    alone smallint not null default 0,  -- its jobs were running when a worker died: one at a time
    due bigint not null default 0,
    pace text,  -- the pace that it waits for, or last waited for
    unique (queue, task, tier, share, priority, alone)
);

create table duework_job (
    id bigint primary key,
    lane bigint not null,
    task text not null,
    key text,
    state text not null default 'open' check (state in ('open', 'done', 'failed', 'cancelled')),
    due bigint not null,               -- claimable from; leased: the lease's end; settled: kept until
    at bigint not null,                -- the time that was asked for; never moved
    fence bigint not null default 0,   -- raised by every claim
    worker bigint,                     -- null unless leased
    failures bigint not null default 0,
    crashes bigint not null default 0, -- crashes of attempts that ran alone
    linked smallint not null default 0,  -- settling it touches more than this row
    payload text not null,
    checksum bigint not null,
    result text,
    error text,
    expires bigint,
    serial text,
    after bigint,
    again text,                         -- payload of the run that a second enqueue asked for
    marked text,                        -- why it is to be cancelled while it runs
    owner text,                         -- the shape it belongs to, as kind:id
    progress text,
    settled bigint,
    batch bigint,                      -- the batch it is a member of
    slot bigint,                      -- when its pace promised to admit it, and the
    slot_fence bigint,                -- fence of the claim that was told so
    check ((state = 'open') = (settled is null)),
    check (worker is null or state = 'open')
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index duework_job_ready on duework_job (lane, due, id) where state = 'open' and worker is null;
create index duework_job_leased on duework_job (due, lane, batch) where worker is not null;
create index duework_job_kept on duework_job (due) where state <> 'open';
create index duework_job_failed on duework_job (id) where state = 'failed';
create unique index duework_job_key on duework_job (task, key) where state = 'open' and key is not null;
create index duework_job_serial on duework_job (serial, due, id) where state = 'open' and serial is not null;
create index duework_job_after on duework_job (after) where state = 'open' and after is not null;
create index duework_job_batch on duework_job (batch, id) where batch is not null;
create index duework_job_batch_failed on duework_job (batch, id)
    where state = 'failed' and batch is not null;
create index duework_job_marked on duework_job (worker) where marked is not null and worker is not null;

-- One row for each attempt that did not end well; a job that succeeds at once has none.
create table duework_attempt (
    job bigint not null,
    fence bigint not null,
    outcome text not null,
    worker bigint,
    started bigint,
    ended bigint not null,
    error text,
    primary key (job, fence)
);

-- Keys that admit one job for longer than it is open.
create table duework_once (
    task text not null,
    key text not null,
    job bigint not null,
    until bigint not null,
    primary key (task, key)
);
create index duework_once_until on duework_once (until);

-- Processes that hold leases: how to tell, on their host, that they are gone.
create table duework_worker (
    id bigint primary key,
    host text not null,
    boot text not null,
    space text not null,
    pid bigint not null,
    born bigint not null,
    started bigint not null
);

-- Queues that are paused; '*' is all of them.
create table duework_pause (
    queue text primary key
);

-- Each group of writes leaves a row here and removes the one before: it decides a lost COMMIT.
-- Differs: in SQLite one row is updated; here it would grow a tail while an old snapshot is open.
create table duework_mark (
    process bigint not null,
    number bigint not null,
    primary key (process, number)
);

create table duework_meta (
    name text primary key,
    value text not null
);

-- What admits jobs: rates, ticks, quotas. One row each, or one for each value of an argument.
create table duework_pace (
    name text primary key,
    kind text not null,
    state text not null default '{}',
    used bigint not null default 0,     -- taken in the present window, and the most that may be
    most bigint not null default 0,
    blocked bigint not null default 0,  -- nothing is admitted until then
    idle bigint,                        -- as good as no row from then on
    changed bigint not null
);
create index duework_pace_idle on duework_pace (idle);
