-- compatible: 11
-- What workers did, by task, for the overview and for metrics: sums of a minute, of fifteen and of all time.

create table duework_minute (
    span bigint not null,             -- how many minutes it sums; 0 is all of time
    start bigint not null,            -- in milliseconds since 1970; 0 where it sums all of time
    queue text not null,
    task text not null,
    started bigint not null,
    done bigint not null,
    failed bigint not null,
    cancelled bigint not null,
    retried bigint not null,
    lag bigint not null,              -- from due to start, of first attempts, in milliseconds
    lag_most bigint not null,
    lag_10ms bigint not null,         -- how many of them took so long at most
    lag_100ms bigint not null,
    lag_1s bigint not null,
    lag_10s bigint not null,
    lag_1min bigint not null,
    lag_more bigint not null,
    primary key (span, start, queue, task)
);
