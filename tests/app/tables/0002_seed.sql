-- Two statements; a semicolon in a string ends neither.
insert into streak (name, days) values ('a;b', 1);
insert into streak (name, days) values ('ada', 2);
