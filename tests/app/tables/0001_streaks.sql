create table streak (name varchar(100) primary key, days bigint not null);
