-- What happened in the demo, in order of its text id (time first), and facts that outlive a start.
create table demo_log(
    id text primary key,
    at bigint not null,
    system text not null,
    kind text not null,
    text text not null
);
create table demo_fact(name text primary key, value text not null);
