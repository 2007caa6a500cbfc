create table demo_log(
    id integer primary key generated always as identity,
    at bigint not null,
    system text not null,
    kind text not null,
    text text not null
);
create table demo_fact(name text primary key, value text not null);
