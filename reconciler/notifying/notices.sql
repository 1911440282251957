-- Notices as rows: kept once for each destination, claimed by a message, told, given up, forgotten.
-- Each statement stands behind its name; `reconciler.notifying.notices` is the only reader.

-- name: keep
-- A batch, one row for each notice and destination. A notice that was kept before stays as it is:
-- the topic may tell it again.
insert into actionledger.notices (
    notice_id, destination, tenant_id, action_key, action_version, kind, policy_row, groups,
    quorum, expires_at, amount_minor, currency, target, raised_at
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
on conflict (notice_id, destination) do nothing;

-- name: waiting
-- The destinations for which anything waits.
select distinct n.destination
from actionledger.notices as n
where n.ended_at is null;

-- name: lock_destination
-- Of two processes that look at a destination at once the second sees what the first has claimed.
select pg_advisory_xact_lock(hashtextextended('actionledger.notices:' || $1, 0));

-- name: end_over
-- What nobody needs to be told any more: its time is up, or the action has gone on. The read model
-- may be behind the notice, and then says nothing about it.
update actionledger.notices as n
set ended_at = $2,
    trouble = case when n.expires_at <= $2 then 'expired' else 'over' end
where n.destination = $1
  and n.ended_at is null
  and (
      n.expires_at <= $2
      or exists (
          select from actionledger.actions as a
          where a.action_key = n.action_key
            and a.version >= n.action_version
            and n.kind <> 'needs_review'
            and a.status <> 'awaiting_approval'
      )
      or exists (
          -- A case is over once somebody has settled it, or proof came; an alarm once somebody has.
          select from actionledger.actions as a
          join actionledger.review_cases as c on c.action_key = a.action_key
          where a.action_key = n.action_key
            and c.version = n.action_version
            and n.kind = 'needs_review'
            and (
                (c.kind = 'review' and a.status <> 'needs_review')
                or exists (
                    select from actionledger.review_resolutions as r
                    where r.action_key = n.action_key and r.version > n.action_version
                )
            )
      )
  );

-- name: told_at
-- When the destination was told last; null for never.
select max(n.sent_at)
from actionledger.notices as n
where n.destination = $1 and n.sent_at is not null;

-- name: claimed
-- The message that is under way, if there is one: it goes on under its own id.
select n.message_id, max(n.tries) as tries, max(n.try_after) as try_after
from actionledger.notices as n
where n.destination = $1 and n.ended_at is null and n.message_id is not null
group by n.message_id
order by min(n.raised_at)
limit 1;

-- name: claim
-- Everything else that waits becomes the next message, the oldest first.
update actionledger.notices as n
set message_id = $2
where (n.notice_id, n.destination) in (
    select w.notice_id, w.destination
    from actionledger.notices as w
    where w.destination = $1 and w.ended_at is null and w.message_id is null
    order by w.raised_at, w.notice_id
    limit $3
);

-- name: lease
-- Nobody else tries this message until then, also where this process dies over it.
update actionledger.notices as n
set try_after = $3
where n.destination = $1 and n.message_id = $2 and n.ended_at is null
returning n.*;

-- name: sent
update actionledger.notices as n
set sent_at = $3, ended_at = $3, tries = n.tries + 1, trouble = null
where n.destination = $1 and n.message_id = $2 and n.ended_at is null;

-- name: failed
update actionledger.notices as n
set tries = n.tries + 1, try_after = $3, trouble = $4
where n.destination = $1 and n.message_id = $2 and n.ended_at is null;

-- name: give_up
update actionledger.notices as n
set tries = n.tries + 1, ended_at = $3, trouble = 'given_up'
where n.destination = $1 and n.message_id = $2 and n.ended_at is null;

-- name: forget
-- What is of long ago, told or not, a little at a time.
delete from actionledger.notices as n
where (n.notice_id, n.destination) in (
    select o.notice_id, o.destination
    from actionledger.notices as o
    where o.raised_at < $1
    order by o.raised_at
    limit $2
);
