-- A provider's name for an effect may be as long as a text of the log: 1,024 characters, 4 KiB. A
-- B-tree takes no entry of more than 2,704 bytes, and one such name ended the projector of every
-- partition. So its hash stands in the key, and who looks for a name finds it by a hash index, which
-- keeps four bytes of each.

-- migrate:up

alter table actionledger.provider_references drop constraint provider_references_name;

-- `decode` of the doubled backslashes gives the bytes of the text; a cast would read them as escapes,
-- and `convert_to` may not stand in an index.
create unique index provider_references_name on actionledger.provider_references (
    action_key, account, sha256(decode(replace(reference, '\', '\\'), 'escape'))
);

create index provider_references_reference
    on actionledger.provider_references using hash (reference);

-- migrate:down

drop index actionledger.provider_references_reference;
drop index actionledger.provider_references_name;
alter table actionledger.provider_references
    add constraint provider_references_name primary key (account, reference, action_key);
