-- How far each provider's list of events was read, and what of it came by itself.
-- Each statement stands behind its name; `reconciler.pulling` is the only reader of this file.

-- name: claim_pull
-- Take the reading of an account that is due, and put the next one off: of several inquirers one
-- reads. A reading that was broken off is begun again when the next one is due.
insert into actionledger.event_pulls as p (provider, account, seen_at, next_at, read_to)
values ($1, $2, $3, $4, $6)
on conflict (provider, account) do update
set next_at = excluded.next_at
where p.next_at <= $5
returning p.seen_at, p.read_to;

-- name: known_events
-- Which events of a page are here already: sent by the provider, or read before. Rows that decide
-- and the others have an index each.
select w.event_id
from unnest($3::text[]) as wanted (event_id)
join actionledger.webhooks as w
  on w.provider = $1
 and w.account = $2
 and w.event_id = wanted.event_id
 and w.classification in ('matched', 'parked')
union
select w.event_id
from unnest($3::text[]) as wanted (event_id)
join actionledger.webhooks as w
  on w.provider = $1
 and w.account = $2
 and w.event_id = wanted.event_id
 and w.classification in ('unrecognised', 'duplicate');

-- name: finish_pull
-- Everything up to this event is on the log, and there was nothing else of the time up to `read_to`
-- when the reading began. Never backwards.
update actionledger.event_pulls
set seen_at = greatest(seen_at, $3), pulled_at = $4, events = events + $5, missed = missed + $6,
    read_to = greatest(read_to, $7), trouble = null
where provider = $1 and account = $2;

-- name: fail_pull
-- The list ended early: what was read is on the log, and is read again.
update actionledger.event_pulls
set pulled_at = $3, missed = missed + $4, trouble = $5
where provider = $1 and account = $2;

-- name: note_hole
-- What happened in this time may be on no list any more. A hole from before grows by it. It is told
-- once: what was compared since then is no part of the next one.
update actionledger.event_pulls
set hole_begin = least(hole_begin, $3), hole_end = greatest(hole_end, $4), read_to = $4
where provider = $1 and account = $2 and read_to < $4;

-- name: holes
-- Of which time events may be lost, for people.
select p.provider, p.account, p.hole_begin, p.hole_end
from actionledger.event_pulls as p
where p.hole_begin is not null
order by p.provider, p.account;

-- name: close_hole
-- A whole list of the effects of this time was compared: what it leaves of the hole goes on being
-- told. A time in the middle takes nothing off, as an account has one hole.
update actionledger.event_pulls
set hole_begin = case
        when hole_begin >= $3 and hole_end <= $4 then null
        when hole_begin >= $3 then greatest(hole_begin, $4)
        else hole_begin
    end,
    hole_end = case
        when hole_begin >= $3 and hole_end <= $4 then null
        when hole_end <= $4 then least(hole_end, $3)
        else hole_end
    end
where provider = $1 and account = $2 and hole_begin is not null;
