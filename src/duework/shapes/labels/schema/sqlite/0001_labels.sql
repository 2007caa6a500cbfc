-- What a job carries beside its arguments. A job that carries nothing has no row here.

create table duework_label (
    job integer primary key,
    headers text,
    latest integer
) strict;

create table duework_tag (
    job integer not null,
    tag text not null,
    primary key (job, tag)
) strict;

create index duework_tag_tag on duework_tag (tag, job);
