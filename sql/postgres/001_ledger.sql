-- Schema version 1: the ledger. docs/formats/record.md describes the columns byte by byte.
create schema if not exists semel;

create table semel.meta (
    name  text primary key,
    value bigint not null
);

-- I3: one store-wide counter that only grows. A batch takes a block of 1024 tokens with one call.
create sequence semel.token increment by 1024 start with 1024;

-- state: 1 running, 2 unknown, 3 settled; 0 is a released operation, absent to everyone. Its row stays for an hour, so
-- that a transaction that took its token before the release cannot insert an older token after it.
create table semel.operation (
    op      uuid primary key,
    token   bigint   not null,
    due     bigint,
    state   smallint not null,
    scope   text,
    key     text,
    record  bytea    not null,
    outcome bytea
);
create index operation_due on semel.operation (state, due) where due is not null;

create view semel.operations as
    select op as operation,
           case state when 1 then 'running' when 2 then 'unknown' when 3 then 'settled' end as state,
           scope, key, token,
           case when due < 253402300800000000 then to_timestamp(due / 1000000.0) end as due,
           octet_length(outcome) as outcome_bytes
      from semel.operation
     where state <> 0;
