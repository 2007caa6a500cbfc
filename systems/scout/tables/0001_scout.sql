-- What there is, stage by stage; a column that is null has not been worked on yet.

create table scout_category (
    id integer not null,
    collection text not null,
    name text not null,
    tier text not null,
    sort_order integer not null,
    scanned_at bigint,
    apps_found integer,
    -- Set while a job has it.
    scanning bigint,
    failures integer not null default 0,
    retry_at bigint not null default 0,
    primary key (id, collection)
);
create index scout_category_due on scout_category (tier, scanned_at);

create table scout_app (
    track_id bigint primary key,
    bundle_id text,
    track_name text not null,
    seller_name text not null,
    average_rating double precision not null default 0,
    rating_count bigint not null default 0,
    primary_genre text,
    price double precision not null default 0,
    formatted_price text,
    artwork_url text,
    track_view_url text,
    description text,
    release_date text,
    updated_date text,
    version text,
    content_rating text,
    languages text,
    developer_id bigint,
    developer_website text,
    enriched_at bigint,
    -- itunes, failed, or null.
    enrichment_source text,
    enrichments integer not null default 0,
    enrich_priority integer not null default 0,
    -- Set while a job has it.
    enriching bigint,
    attempts integer not null default 0,
    retry_at bigint not null default 0,
    competitiveness_score double precision,
    evaluated_at bigint,
    first_seen_at bigint not null,
    last_seen_at bigint not null
);
create index scout_app_enrich on scout_app (enrich_priority desc, rating_count desc)
    where enriched_at is null and enriching is null;
create index scout_app_stale on scout_app (enrichment_source, enriched_at);
create index scout_app_enriching on scout_app (enriching) where enriching is not null;
create index scout_app_evaluated on scout_app (evaluated_at);
create index scout_app_evaluate on scout_app (enriched_at) where evaluated_at is null;

create table scout_developer (developer_id bigint primary key, name text not null, website text);

create table scout_chart (
    track_id bigint not null,
    collection text not null,
    category integer not null,
    rank integer not null,
    snapshot_at bigint not null,
    primary key (collection, category, track_id)
);
create index scout_chart_app on scout_chart (track_id, rank);
create table scout_chart_history (
    collection text not null,
    category integer not null,
    snapshot_at bigint not null,
    rank integer not null,
    track_id bigint not null,
    primary key (collection, category, snapshot_at, rank)
);
create index scout_chart_history_age on scout_chart_history (snapshot_at);

create table scout_keyword (
    keyword text primary key,
    -- pending, searching, searched, failed.
    status text not null default 'pending',
    source text not null,
    source_keyword text,
    depth integer not null default 0,
    priority integer not null default 0,
    app_count integer,
    failures integer not null default 0,
    retry_at bigint not null default 0,
    created_at bigint not null,
    last_searched_at bigint
);
create index scout_keyword_status on scout_keyword (status, priority desc, created_at);

create table scout_ranking (
    keyword text not null,
    track_id bigint not null,
    rank integer not null,
    crawled_at bigint not null,
    primary key (keyword, track_id)
);
create index scout_ranking_app on scout_ranking (track_id);

-- A score and everything that went into it.
create table scout_ledger (
    track_id bigint not null,
    agent text not null,
    score double precision not null,
    inputs text not null,
    at bigint not null,
    primary key (track_id, agent)
);

create table scout_cluster (
    id text primary key,
    name text not null,
    apps integer not null,
    keywords integer not null,
    demand double precision not null,
    competition double precision not null,
    fragmentation double precision not null,
    design double precision not null,
    score double precision not null,
    inputs text not null,
    found_at bigint not null
);
create table scout_cluster_app (cluster text not null, track_id bigint not null, primary key (cluster, track_id));
create table scout_cluster_keyword (cluster text not null, keyword text not null, primary key (cluster, keyword));

create table scout_opportunity (
    cluster text primary key,
    name text not null,
    score double precision not null,
    verdict text not null,
    -- The four part scores, the facts with the rows they come from, and who said what.
    parts text not null,
    facts text not null,
    debate text not null,
    first_at bigint not null,
    decided_at bigint not null
);
create index scout_opportunity_score on scout_opportunity (score desc);
