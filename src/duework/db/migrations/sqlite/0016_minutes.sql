-- compatible: 11
-- What workers did, by task, for the overview and for metrics: sums of a minute, of fifteen and of all time.

create table duework_minute (
    span integer not null,             -- how many minutes it sums; 0 is all of time
    start integer not null,            -- in milliseconds since 1970; 0 where it sums all of time
    queue text not null,
    task text not null,
    started integer not null,
    done integer not null,
    failed integer not null,
    cancelled integer not null,
    retried integer not null,
    lag integer not null,              -- from due to start, of first attempts, in milliseconds
    lag_most integer not null,
    lag_10ms integer not null,         -- how many of them took so long at most
    lag_100ms integer not null,
    lag_1s integer not null,
    lag_10s integer not null,
    lag_1min integer not null,
    lag_more integer not null,
    primary key (span, start, queue, task)
) strict, without rowid;
