-- How a webhook came: sent by the provider, a line of its settlement file, an effect of its own
-- list, or an event fetched from its list of events. And who has looked at one that is nobody's: an
-- effect at the provider without an action waits for a person, not for a reference alone.

-- migrate:up

alter table actionledger.webhooks
    add column source text not null default 'webhook'
    constraint webhooks_source check (source in ('webhook', 'settlement', 'listing', 'pulled')),
    -- An operator's word on it, as it stands on the topic `webhooks`; the row stays parked, so that
    -- the same line counts once and an action that appears later still gets it.
    add column seen_by text,
    add column seen_at timestamptz,
    add column seen_note text,
    add constraint webhooks_seen check (
        (seen_by is null) = (seen_at is null) and (seen_by is null) = (seen_note is null)
    );

-- Effects without an action that nobody has looked at: few, listed for people.
create index webhooks_orphans on actionledger.webhooks (received_at)
    where classification = 'parked' and reason = 'orphan_effect' and seen_at is null;

-- Parked lines that name an action which the tables did not have yet, for the sweep.
create index webhooks_claims on actionledger.webhooks (claimed_key)
    where classification = 'parked' and reason = 'orphan_effect' and claimed_key is not null;

-- migrate:down

drop index actionledger.webhooks_claims;
drop index actionledger.webhooks_orphans;
alter table actionledger.webhooks
    drop column seen_note,
    drop column seen_at,
    drop column seen_by,
    drop column source;
