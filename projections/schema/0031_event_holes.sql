-- Of which time a provider may keep events no more that were never read: nobody read its list for
-- longer than it keeps them. What is told, until a comparison of that time was whole.

-- migrate:up

alter table actionledger.event_pulls
    -- Up to when every event that the list had was read, or is told of as one that may be lost. Its
    -- newest event does not say so: an account may have none for months. An account that an older
    -- program begins to read meanwhile begins now.
    add column read_to timestamptz not null default now(),
    add column hole_begin timestamptz,
    add column hole_end timestamptz,
    add constraint event_pulls_hole check ((hole_begin is null) = (hole_end is null));

-- Of a list that ended early at the last time no more is known than its newest event.
update actionledger.event_pulls
set read_to = case when trouble is null then coalesce(pulled_at, seen_at) else seen_at end;

-- migrate:down

alter table actionledger.event_pulls
    drop column hole_end,
    drop column hole_begin,
    drop column read_to;
