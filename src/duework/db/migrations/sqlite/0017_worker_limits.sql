-- compatible: 11
-- The limits and paces that a worker goes by, as JSON, so that another one can say that its own differ.

alter table duework_worker add column limits text;
