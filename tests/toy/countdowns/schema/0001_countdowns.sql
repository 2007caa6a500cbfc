create table duework_countdown (
    id bigint primary key,
    name text not null unique,
    state text not null,
    remaining bigint not null,
    job bigint,
    due bigint not null
);

create index duework_countdown_due on duework_countdown (due);
