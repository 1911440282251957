-- Who decides: the decision table and the people that each partition has adopted.

-- migrate:up

-- Beside the catalogue and the holds: what an owner's decisions follow from, as it was adopted.
alter table actionledger.projection_offsets add column policy json;
alter table actionledger.projection_offsets add column people json;

-- migrate:down

alter table actionledger.projection_offsets drop column policy;
alter table actionledger.projection_offsets drop column people;
