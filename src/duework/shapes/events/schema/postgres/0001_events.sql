-- Names that something was published under, or that somebody subscribes to: what both lock.
create table duework_topic (
    name text primary key
);

-- Who gets what; `job` is the one that runs its next bulk, if it takes bulks and events wait for one.
create table duework_subscriber (
    name text primary key,
    event text not null,
    queue text not null,
    priority bigint not null,
    bulk bigint not null,
    within_ms bigint not null,
    job bigint,
    created bigint not null
);

create index duework_subscriber_event on duework_subscriber (event, name);

-- What was published; `jobs` counts those that it was given to.
create table duework_event (
    id bigint primary key,
    name text not null,
    payload text not null,
    jobs bigint not null,
    at bigint not null,
    due bigint not null
);

create index duework_event_name on duework_event (name, id);
create index duework_event_due on duework_event (due);

-- One job for each event and subscriber; `parked` while it waits for a bulk.
create table duework_event_job (
    event bigint not null,
    subscriber text not null,
    job bigint not null,
    at bigint not null,
    parked bigint not null,
    primary key (event, subscriber)
);

create index duework_event_job_parked on duework_event_job (subscriber, job) where parked = 1;
