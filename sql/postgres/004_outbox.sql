-- Schema version 4: the outbox: events that commit with the business write, until `semel outbox` has published them.
--
--     begin;
--     -- the business write; then
--     select semel.stage_json(topic => 'orders', source => '/shop', type => 'order.paid', ordering_key => 'order-7',
--                             data => '{"order": 7}');
--     commit;
--
-- Times are microseconds since 1970. docs/outbox.md

-- An event that is staged and not published yet. A published one is deleted: what is here is the work that is left. Of one
-- ordering key `sequence` is the order of commits, since the key is locked before its sequence is taken. extensions:
-- `name=value`, a line each, in the order of names.
create sequence semel.outbox_sequence;
create table semel.outbox (
    outbox            text     not null,
    shard             smallint not null,
    sequence          bigint   not null,
    staged_at         bigint   not null,
    topic             text     not null,
    ordering_key      text     not null,
    id                text     not null,
    source            text     not null,
    type              text     not null,
    subject           text     not null,
    time              text     not null,
    data_content_type text     not null,
    data_schema       text     not null,
    extensions        text     not null,
    data              bytea    not null,
    primary key (outbox, shard, sequence)
);
-- Rows live for a moment: what is dead is cleared away early, by number and not by share of a table that is mostly empty.
alter table semel.outbox set (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0,
                              autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000);

-- Which relay works on which shard, and until when. bell: it sleeps and wants to be told of what is staged.
create table semel.outbox_lease (
    outbox text     not null,
    shard  smallint not null,
    relay  text     not null default '',
    until  bigint   not null default 0,
    bell   boolean  not null default true,
    primary key (outbox, shard)
) with (fillfactor = 50);
create table semel.outbox_relay (
    outbox      text   not null,
    relay       text   not null,
    alive_until bigint not null,
    primary key (outbox, relay)
) with (fillfactor = 50);

-- An event that its broker refuses. It stops its ordering key until `retry_at`; one without a key stops itself.
create table semel.outbox_stuck (
    outbox       text     not null,
    shard        smallint not null,
    sequence     bigint   not null,
    ordering_key text     not null,
    tries        bigint   not null,
    since        bigint   not null,
    retry_at     bigint   not null,
    error        text     not null,
    -- What tells rows apart comes first: neither index looks good for what the other is for, whatever is known of the table.
    primary key (sequence, shard, outbox)
);
create index outbox_stuck_order on semel.outbox_stuck (ordering_key, shard, outbox);

-- An event that a person has dropped unpublished, without its data: who decided that, and why. Kept for good. id, source and
-- type are empty if the event had been removed by hand before.
create table semel.outbox_dropped (
    sequence     bigint not null,
    outbox       text   not null,
    dropped_at   bigint not null,
    who          text   not null,
    why          text   not null,
    staged_at    bigint not null,
    tries        bigint not null,
    error        text   not null,
    topic        text   not null,
    ordering_key text   not null,
    id           text   not null,
    source       text   not null,
    type         text   not null,
    primary key (sequence)
);

create function semel._micros() returns bigint
language sql volatile
return (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- The same for all rows of a statement.
create function semel._statement_micros() returns bigint
language sql stable
return (extract(epoch from statement_timestamp()) * 1000000)::bigint;

create function semel._stage(outbox text, topic text, ordering_key text, id text, source text, type text, subject text,
                             "time" text, data_content_type text, data_schema text, extensions text, data bytea)
returns bigint
language plpgsql volatile as $$
declare
    number bigint;
    at     smallint;
begin
    if _stage.ordering_key operator(pg_catalog.<>) '' then
        -- Before the sequence is taken, and held until the commit is visible: of one key sequence is commit order.
        -- 7306357 is ours, so that a transaction that holds others up can be found in pg_locks.
        perform pg_catalog.pg_advisory_xact_lock(7306357, pg_catalog.hashtext(
            _stage.outbox operator(pg_catalog.||) '/' operator(pg_catalog.||) _stage.ordering_key));
        number := pg_catalog.nextval('semel.outbox_sequence');
        at := pg_catalog.hashtext(_stage.ordering_key) operator(pg_catalog.&) 15;
    else
        number := pg_catalog.nextval('semel.outbox_sequence');
        at := number operator(pg_catalog.&) 15;
    end if;
    insert into semel.outbox values (_stage.outbox, at, number, semel._micros(), _stage.topic, _stage.ordering_key, _stage.id,
        _stage.source, _stage.type, _stage.subject, _stage."time", _stage.data_content_type, _stage.data_schema,
        _stage.extensions, _stage.data);
    -- NOTIFY takes a lock of the whole server at commit: only where somebody sleeps.
    if (select l.bell from semel.outbox_lease l
         where l.outbox operator(pg_catalog.=) _stage.outbox and l.shard operator(pg_catalog.=) at) then
        perform pg_catalog.pg_notify('semel_outbox', '');
    end if;
    return number;
end $$;

-- Stages an event in the caller's transaction: it is published if and only if that commits. Events with the same ordering
-- key are published in the order of their commits, those of one transaction in the order of their calls; a second
-- transaction waits here until the first one that staged for that key has ended. `topic` is Kafka's topic, RabbitMQ's
-- routing key, NATS' subject, Redis' stream or the path of an HTTP endpoint. Returns the event's number.
create function semel.stage(topic text, source text, type text, data bytea, ordering_key text default '',
                            id text default gen_random_uuid()::text, subject text default '',
                            data_content_type text default 'application/octet-stream', data_schema text default '',
                            "time" timestamptz default clock_timestamp(), extensions jsonb default '{}',
                            outbox text default 'main') returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    lines text := '';
begin
    if (octet_length(stage.outbox) between 1 and 255 and octet_length(stage.topic) between 1 and 1024
        and octet_length(stage.ordering_key) <= 1024 and octet_length(stage.id) between 1 and 1024
        and octet_length(stage.source) between 1 and 4096 and octet_length(stage.type) between 1 and 4096
        and octet_length(stage.subject) <= 4096 and octet_length(stage.data_content_type) <= 4096
        and octet_length(stage.data_schema) <= 4096 and stage.data is not null
        and stage.outbox || stage.topic || stage.ordering_key || stage.id || stage.source || stage.type || stage.subject
            || stage.data_content_type || stage.data_schema !~ '[[:cntrl:]]') is not true then
        raise exception 'stage: topic, source, type, data, id and outbox are needed, and no attribute may be null, have control '
                        'characters or be too long' using errcode = 'invalid_parameter_value',
            hint = 'topic, ordering_key and id have up to 1024 bytes, outbox 255, the others 4096.';
    end if;
    if stage.extensions <> '{}' then
        if exists (select from jsonb_each_text(stage.extensions) e where e.key !~ '^[a-z0-9]{1,64}$'
                      or (octet_length(e.value) <= 4096 and e.value !~ '[[:cntrl:]]') is not true
                      or e.key in ('specversion', 'id', 'source', 'type', 'subject', 'time', 'datacontenttype', 'dataschema',
                                   'data')) then
            raise exception 'stage: names in extensions have 1 to 64 characters of a-z and 0-9 and are not those of attributes; '
                            'values are texts of up to 4096 bytes' using errcode = 'invalid_parameter_value';
        end if;
        select string_agg(e.key || '=' || e.value, E'\n' order by e.key collate "C") into lines
          from jsonb_each_text(stage.extensions) e;
    end if;
    return semel._stage(stage.outbox, stage.topic, stage.ordering_key, stage.id, stage.source, stage.type, stage.subject,
        coalesce(to_char(stage."time" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), ''), stage.data_content_type,
        stage.data_schema, lines, stage.data);
end $$;

-- The same of JSON.
create function semel.stage_json(topic text, source text, type text, data json, ordering_key text default '',
                                 id text default gen_random_uuid()::text, subject text default '',
                                 data_schema text default '', "time" timestamptz default clock_timestamp(),
                                 extensions jsonb default '{}', outbox text default 'main') returns bigint
language sql volatile
return semel.stage(topic, source, type, pg_catalog.convert_to(data::pg_catalog.text, 'UTF8'), ordering_key, id, subject,
                   'application/json', data_schema, "time", extensions, outbox);

-- For `semel outbox`: says that `me` lives, keeps its share of the shards and lets the rest go, takes what is free.
create function semel._outbox_hold(of_outbox text, me text, lease bigint, out held smallint[], out relays bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    now_at bigint := semel._micros();
    share  bigint;
    mine   bigint;
begin
    insert into semel.outbox_relay values (of_outbox, me, now_at + lease)
        on conflict (outbox, relay) do update set alive_until = excluded.alive_until;
    delete from semel.outbox_relay r where r.outbox = of_outbox and r.alive_until < now_at - 3600000000;
    insert into semel.outbox_lease (outbox, shard) select of_outbox, n from generate_series(0, 15) n on conflict do nothing;
    select count(*) into relays from semel.outbox_relay r where r.outbox = of_outbox and r.alive_until > now_at;
    share := (15 + relays) / relays;
    update semel.outbox_lease l
       set relay = case when m.place <= share then me else '' end, until = case when m.place <= share then now_at + lease else 0 end
      from (select k.shard, row_number() over (order by k.shard) as place from semel.outbox_lease k
             where k.outbox = of_outbox and k.relay = me) m
     where l.outbox = of_outbox and l.shard = m.shard and l.relay = me;
    select count(*) into mine from semel.outbox_lease l where l.outbox = of_outbox and l.relay = me;
    update semel.outbox_lease l set relay = me, until = now_at + lease, bell = true
      from (select k.shard from semel.outbox_lease k where k.outbox = of_outbox and (k.relay = '' or k.until < now_at)
             order by k.shard limit greatest(0, share - mine) for update skip locked) f
     where l.outbox = of_outbox and l.shard = f.shard;
    select coalesce(array_agg(l.shard order by l.shard), '{}') into held
      from semel.outbox_lease l where l.outbox = of_outbox and l.relay = me;
end $$;

-- For `semel outbox stuck drop`: removes an event that is stuck and keeps the decision. False: it is not stuck. In the order
-- in which relays remove, or the two might deadlock.
create function semel._outbox_drop(of_outbox text, number bigint, who text, why text) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    gone  semel.outbox;
    stuck semel.outbox_stuck;
begin
    delete from semel.outbox o using semel.outbox_stuck s
     where s.outbox = of_outbox and s.sequence = number and o.outbox = s.outbox and o.shard = s.shard and o.sequence = s.sequence
    returning o.* into gone;
    delete from semel.outbox_stuck s where s.outbox = of_outbox and s.sequence = number returning s.* into stuck;
    if not found then
        return false;
    end if;
    insert into semel.outbox_dropped values (number, of_outbox, semel._micros(), who, why, coalesce(gone.staged_at, stuck.since),
        stuck.tries, stuck.error, coalesce(gone.topic, ''), stuck.ordering_key, coalesce(gone.id, ''), coalesce(gone.source, ''),
        coalesce(gone.type, ''));
    perform pg_notify('semel_outbox', '');
    return true;
end $$;
