-- compatible: 1
-- The last signal that an earlier run of a job has taken; `duework_step` has those of the present one.
create table duework_heard (
    job integer not null,
    event text not null,
    key text not null,
    signal integer not null,
    primary key (job, event, key)
) strict, without rowid;
