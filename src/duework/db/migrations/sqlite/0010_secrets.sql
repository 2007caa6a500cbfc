-- Secrets: sealed with a key that is not in this database.

create table duework_secret (
    name text primary key,
    key text not null,                  -- which key sealed it: the first digits of a hash of it
    sealed blob not null,               -- the nonce, then what AES-256-GCM made of the value
    updated integer not null
) strict, without rowid;
