-- What agents say and believe, and what clusters were before.

-- What a good cluster adds to the priority of an app or keyword, and which one: it is set, and taken back.
alter table scout_app add column boost integer not null default 0;
alter table scout_app add column boosted_by text;
create index scout_app_boosted on scout_app (boosted_by) where boosted_by is not null;
alter table scout_keyword add column boost integer not null default 0;
alter table scout_keyword add column boosted_by text;
create index scout_keyword_boosted on scout_keyword (boosted_by) where boosted_by is not null;
create index scout_keyword_of on scout_keyword (source_keyword) where status = 'pending';
create index scout_app_judge on scout_app (enriched_at)
    where evaluated_at is null and enriched_at is not null and enrichment_source <> 'failed';

-- The score before the present one.
alter table scout_ledger add column previous double precision;
alter table scout_ledger add column previous_at bigint;

-- As scout_ledger, of keywords and clusters: kind says of which.
create table scout_agent_ledger (
    kind text not null,
    subject text not null,
    agent text not null,
    score double precision not null,
    inputs text not null,
    at bigint not null,
    previous double precision,
    previous_at bigint,
    primary key (kind, subject, agent)
);

-- What an agent believes of a cluster: base is what it believed before the run that it saw last.
create table scout_agent_memory (
    subject text not null,
    agent text not null,
    belief text not null,
    holds integer not null,
    confidence double precision not null,
    runs integer not null,
    base double precision not null,
    base_at bigint not null,
    first_at bigint not null,
    run_at bigint not null,
    primary key (subject, agent)
);
-- What has held so often that it is taken for granted.
create table scout_core_belief (
    subject text not null,
    agent text not null,
    belief text not null,
    confidence double precision not null,
    since bigint not null,
    primary key (subject, agent)
);

-- What a new app in a cluster could be: a keyword that is wanted and served badly.
create table scout_concept (
    cluster text not null,
    keyword text not null,
    place integer not null,
    score double precision not null,
    text text not null,
    inputs text not null,
    at bigint not null,
    primary key (cluster, keyword)
);

-- One row for each time that clusters were made; stored_at is null until all of them are stored.
create table scout_cluster_run (
    at bigint primary key,
    keywords integer not null,
    rankings integer not null,
    clusters integer not null,
    born integer not null,
    ended integer not null,
    quality double precision not null,
    apps_boosted integer not null default 0,
    keywords_boosted integer not null default 0,
    stored_at bigint
);
-- Which members a cluster has, as a hash, whether they are boosted, and how much of them was there before.
create table scout_cluster_state (
    cluster text primary key,
    members text not null,
    hot integer not null,
    overlap double precision not null,
    born_at bigint not null
);
create table scout_cluster_snapshot (
    cluster text not null,
    at bigint not null,
    name text not null,
    apps integer not null,
    keywords integer not null,
    demand double precision not null,
    competition double precision not null,
    fragmentation double precision not null,
    design double precision not null,
    score double precision not null,
    overlap double precision not null,
    primary key (cluster, at)
);
create index scout_cluster_snapshot_age on scout_cluster_snapshot (at);
-- born, split, merged, ended: from or into the other one.
create table scout_cluster_lineage (
    cluster text not null,
    at bigint not null,
    event text not null,
    other text not null default '',
    overlap double precision not null,
    primary key (cluster, at, event)
);
-- The nearest others, and the share of a cluster's weight that leads there.
create table scout_cluster_relation (
    cluster text not null,
    other text not null,
    share double precision not null,
    primary key (cluster, other)
);
create index scout_cluster_app_of on scout_cluster_app (track_id);
create index scout_cluster_keyword_of on scout_cluster_keyword (keyword);
create index scout_cluster_score on scout_cluster (score desc, id);
