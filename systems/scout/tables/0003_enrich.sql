-- What an app's page says, what people write about it, and how it changes from day to day.

alter table scout_app add column subtitle text;
-- One star first: [12, 8, 20, 90, 400].
alter table scout_app add column rating_histogram text;
-- [{"name": …, "price": 4.99, "label": "$4.99"}]
alter table scout_app add column in_app_purchases text;
alter table scout_app add column iap_scraped_at bigint;
-- found, none, missing: the page did not say; failed: it never did.
alter table scout_app add column iap_scrape_status text;
alter table scout_app add column iap_attempts integer not null default 0;
alter table scout_app add column iap_retry_at bigint not null default 0;
-- Ids of apps, as JSON.
alter table scout_app add column similar_apps text;
alter table scout_app add column screenshots integer;
alter table scout_app add column scraped_at bigint;
-- Set while a job has its page.
alter table scout_app add column scraping bigint;
alter table scout_app add column scrape_attempts integer not null default 0;
alter table scout_app add column scrape_retry_at bigint not null default 0;
alter table scout_app add column scrape_error text;
alter table scout_app add column reviewed_at bigint;
alter table scout_app add column rating_velocity_7d double precision;
alter table scout_app add column rating_count_7d_ago bigint;
alter table scout_app add column rating_velocity_updated_at bigint;

-- The source comes first, although it is one alone: without statistics another index looked better.
create index scout_app_page on scout_app (enrichment_source, enrich_priority desc, rating_count desc)
    where enrichment_source = 'itunes' and scraping is null;
create index scout_app_page_old on scout_app (enrichment_source, scraped_at)
    where enrichment_source = 'scraper' and scraping is null;
create index scout_app_scraping on scout_app (scraping) where scraping is not null;
create index scout_app_iaps on scout_app (enrichment_source, rating_count desc)
    where enrichment_source = 'scraper' and iap_scraped_at is null;
create index scout_app_seen on scout_app (last_seen_at);

create table scout_review (
    track_id bigint not null,
    id text not null,
    rating integer not null,
    title text not null,
    content text not null,
    author text,
    version text,
    written_at text,
    -- From -1, angry, to 1, delighted.
    sentiment double precision not null,
    seen_at bigint not null,
    primary key (track_id, id)
);

create table scout_version (
    track_id bigint not null,
    version text not null,
    released_at text,
    notes text,
    seen_at bigint not null,
    primary key (track_id, version)
);

-- In how many reviews of an app a keyword occurs.
create table scout_mention (
    track_id bigint not null,
    keyword text not null,
    reviews integer not null,
    primary key (track_id, keyword)
);

create table scout_snapshot (
    track_id bigint not null,
    snapshot_at bigint not null,
    rating_count bigint not null,
    average_rating double precision not null,
    primary key (track_id, snapshot_at)
);
create index scout_snapshot_age on scout_snapshot (snapshot_at);

-- How often a page did not say something that is looked for.
create table scout_missing (field text primary key, pages bigint not null, last_at bigint not null);

create table scout_quality (
    day bigint not null,
    field text not null,
    covered bigint not null,
    total bigint not null,
    threshold integer not null,
    primary key (day, field)
);

create table scout_size (
    day bigint primary key,
    bytes bigint not null,
    apps bigint not null
);
