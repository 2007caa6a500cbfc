-- What a job carries beside its arguments. A job that carries nothing has no row here.

create table duework_label (
    job bigint primary key,
    headers text,
    latest bigint
);

create table duework_tag (
    job bigint not null,
    tag text collate "C" not null,
    primary key (job, tag)
);

create index duework_tag_tag on duework_tag (tag, job);
