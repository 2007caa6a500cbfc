-- Names for what they hold: why a running job is to be cancelled, and when the present send was started.
-- Code that knows the old names cannot go on. The index `duework_job_marked` follows the column and keeps its
-- name: to make it anew would read the whole table.

alter table duework_job rename column marked to cancel_reason;
alter table duework_delivery rename column marked to send_started;
