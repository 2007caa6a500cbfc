-- What users count. `span` is how many minutes a row sums: 1, 60 or 1440, or 0 for all of time.

create table duework_metric (
    span bigint not null,
    name text collate "C" not null,
    start bigint not null,
    labels text collate "C" not null,
    kind text not null,
    count bigint not null,
    total double precision not null,
    most double precision not null,
    primary key (span, name, start, labels)
);

create index duework_metric_start on duework_metric (span, start);
