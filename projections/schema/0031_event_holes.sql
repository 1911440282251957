-- Of which time a provider may keep events no more that were never read: nobody read its list for
-- longer than it keeps them. What is told, until a comparison of that time was whole.

-- migrate:up

alter table actionledger.event_pulls
    add column hole_begin timestamptz,
    add column hole_end timestamptz,
    add constraint event_pulls_hole check ((hole_begin is null) = (hole_end is null));

-- migrate:down

alter table actionledger.event_pulls
    drop column hole_end,
    drop column hole_begin;
