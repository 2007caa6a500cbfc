-- Blobs by key: `due` is when one is over. What is written under a key is never changed, but replaced.

create table duework_blob (
    name text primary key,
    content integer not null,
    size integer not null,
    digest text not null,
    kind text not null,
    about text not null,
    created integer not null,
    due integer not null
) strict;

create index duework_blob_due on duework_blob (due);

create unique index duework_blob_content on duework_blob (content);

-- Contents that no blob has: not yet, or not any more. From `due` on they are deleted.
create table duework_blob_trash (
    content integer primary key,
    due integer not null,
    doomed integer not null
) strict;

create index duework_blob_trash_due on duework_blob_trash (due);
