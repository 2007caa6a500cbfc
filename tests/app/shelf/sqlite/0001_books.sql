create table book (id integer primary key, title text) strict;
