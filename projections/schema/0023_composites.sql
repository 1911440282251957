-- Webhooks that bear no mark of ours and no reference that is known: what their provider's
-- description declares to name an action together with account, amount and currency. And what else
-- a person looks at beside effects without an action.

-- migrate:up

alter table actionledger.webhooks
    add column about_operation text,
    add column about_target text,
    add constraint webhooks_about check ((about_operation is null) = (about_target is null));

-- Few rows, looked for every few seconds, in the order of their places.
create index webhooks_about on actionledger.webhooks (partition, topic_offset)
    where classification = 'parked' and about_target is not null;

-- What people have to look at and nobody has: few, listed for people.
drop index actionledger.webhooks_orphans;
create index webhooks_orphans on actionledger.webhooks (received_at)
    where classification = 'parked'
      and reason in ('orphan_effect', 'line_changed', 'effect_not_listed')
      and seen_at is null;

-- migrate:down

drop index actionledger.webhooks_orphans;
create index webhooks_orphans on actionledger.webhooks (received_at)
    where classification = 'parked' and reason = 'orphan_effect' and seen_at is null;
drop index actionledger.webhooks_about;
alter table actionledger.webhooks
    drop constraint webhooks_about,
    drop column about_target,
    drop column about_operation;
