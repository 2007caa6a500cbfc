create table book (id bigint primary key, title text);
