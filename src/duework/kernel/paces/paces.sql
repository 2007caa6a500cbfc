-- Paces: the state of what admits jobs, one small row each, shared by all processes.
-- Many of them are always locked in the order of their names, and before any lane.

-- name: new_pace
-- Born as if it had never admitted anything; does nothing if another transaction was first.
insert into duework_pace (name, kind, changed) values (:name, :kind, :now)
on conflict (name) do nothing

-- name: lock_paces
select name, state, changed from duework_pace
where name in (select value from json_each(:names))
order by name
/*+ for update */

-- name: save_pace
update duework_pace
set state = :state, used = :used, most = :most, blocked = :blocked, idle = :idle, changed = :now
where name = :name

-- name: lane_waits
-- A lane that was paused meanwhile stays so.
update duework_lane set due = :due, pace = :pace
where id = :id and due < :forever

-- name: lanes_earlier
-- What waits for this pace need not wait any longer than until :due.
update duework_lane set due = :due
where id in (
    select id from duework_lane
    where pace = :pace and due > :due and due < :forever
    order by id
    /*+ for update */
)

-- name: lanes_again
-- Whatever waits for a pace looks at it again.
update duework_lane set due = 0
where id in (
    select id from duework_lane
    where pace is not null and due > :now and due < :forever
    order by id
    /*+ for update */
)

-- name: values_ahead
-- Values of an argument with a state that is not as good as none.
select name, changed from duework_pace where idle > :now order by name

-- name: unpromise
-- The times that these lanes' jobs were promised do not hold any more.
update duework_job set due = :now, slot = null, slot_fence = null
where id in (
    select id from duework_job
    where lane in (select value from json_each(:lanes)) and state = 'open' and worker is null
      and due > :now and due = slot
    order by id
    /*+ for update */
)

-- name: promise
-- Hand a job back that was just claimed, with the time at which its value's pace admits it.
update duework_job
set due = :slot, worker = null, slot = :slot, slot_fence = :fence
where id = :id and fence = :fence

-- name: forget_paces
-- A chunk of the rows of values that are as good as none, locked in the order of all others.
delete from duework_pace
where name in (select name from duework_pace
               where name in (select name from duework_pace
                              where idle <= :now
                              order by idle
                              limit :wanted)
               order by name
               /*+ for update */)
  and idle <= :now
returning name

-- name: paces
-- For people, by name.
select p.name, p.kind, p.state, p.used, p.most, p.blocked, p.changed,
       (select min(l.due) from duework_lane l where l.pace = p.name and l.due > :now) as waits
from duework_pace p
where p.name >= :after and substr(p.name, 1, length(:prefix)) = :prefix
order by p.name
limit :wanted

-- name: look
select state from duework_pace where name = :name
