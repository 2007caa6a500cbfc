-- compatible: 11
-- The messages of one lane of an outbox, such as those of a tenant. Code that does not look for them may go on.

create index duework_outbox_lane on duework_outbox (outbox, lane, state, id) where lane <> '';
