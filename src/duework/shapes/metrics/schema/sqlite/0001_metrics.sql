-- What users count. `span` is how many minutes a row sums: 1, 60 or 1440, or 0 for all of time.

create table duework_metric (
    span integer not null,
    name text not null,
    start integer not null,
    labels text not null,
    kind text not null,
    count integer not null,
    total real not null,
    most real not null,
    primary key (span, name, start, labels)
) strict;

create index duework_metric_start on duework_metric (span, start);
