-- A workflow: a job that has recorded steps. Its rows outlive it by a day at most.
create table duework_workflow (
    job integer primary key,
    task text not null,
    call integer not null,               -- a checksum of the payload that the records belong to
    state text not null,                -- running, attention, ended, cancelled
    reason text,                        -- why it needs attention
    started integer not null,
    due integer not null                 -- when the housekeeping looks whether its job is still there
) strict;
create index duework_workflow_due on duework_workflow (due);
create index duework_workflow_attention on duework_workflow (job) where state = 'attention';

create table duework_step (
    job integer not null,
    place integer not null,              -- from 1, in the order of the code
    name text not null,
    kind text not null,                 -- step, sleep, wait, child
    state text not null,                -- trying, waiting, done, failed
    fence integer not null,              -- of the attempt that wrote it
    failures integer not null,
    due integer,                         -- the end of a sleep, of a wait, or of a pause before the next try
    event text,
    key text,
    signal integer,                      -- the one that a wait has taken
    child integer,                       -- the job that is waited for
    result text,
    error text,
    started integer not null,
    ended integer,
    primary key (job, place)
) strict, without rowid;
create index duework_step_waiting on duework_step (event, key) where state = 'waiting' and event is not null;

-- What was told to workflows, whether or not one waited for it.
create table duework_signal (
    id integer primary key,
    event text not null,
    key text not null,
    payload text not null,
    at integer not null
) strict;
create index duework_signal_topic on duework_signal (event, key, id);
create index duework_signal_at on duework_signal (at);

-- Locked by whoever tells or begins to wait, so that neither misses the other.
create table duework_signalled (
    event text not null,
    key text not null,
    changed integer not null,
    primary key (event, key)
) strict, without rowid;
create index duework_signalled_changed on duework_signalled (changed);
