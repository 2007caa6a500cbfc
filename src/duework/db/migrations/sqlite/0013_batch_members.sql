-- compatible: 11
-- How the members of a batch are made, as JSON, so that more may be added to it. Null if that is not known.

alter table duework_batch add column member text;
