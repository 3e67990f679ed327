-- Schema version 5: a record may hold the request of its first claim (field 21) while it is open: docs/formats/record.md.
-- The functions carry it along, and what they settle has none.

-- Reads the record column of a row that is known to be intact.
create or replace function semel._read(record bytea) returns semel._record
language plpgsql immutable strict parallel safe as $$
declare
    read  semel._record;
    last  int := octet_length(record) - 8;
    place int := 19;
    tag   int;
    size  bigint;
    value bytea;
begin
    read.flags := get_byte(record, 1);
    read.fingerprint := substr(record, 3, 17);
    read.fields := array_fill(null::bytea, array[21]);
    read.events := '{}';
    read.checkpoints := '{}';
    while place < last loop
        tag := get_byte(record, place);
        size := semel._varint_at(record, place + 1);
        place := place + 1 + octet_length(semel._varint(size));
        if tag not between 1 and 21 or place + size > last then
            raise exception 'a record has a field that this schema does not know (see docs/formats/record.md)'
                using errcode = 'data_corrupted';
        end if;
        value := substr(record, place + 1, size::int);
        place := place + size::int;
        if tag = 17 then
            read.events := read.events || value;
        elsif tag = 20 then
            read.checkpoints := read.checkpoints || value;
        else
            read.fields[tag] := value;
        end if;
    end loop;
    return read;
end $$;

-- The row with `read` as its record column: due and checksum included.
create or replace function semel._written(held semel.operation, read semel._record) returns semel.operation
language plpgsql immutable parallel safe as $$
declare
    head       bytea := semel._byte(1) || semel._byte(read.flags) || read.fingerprint;
    settled_at bigint := semel._number(read.fields[19]);
    values_of  bytea[];
    value      bytea;
begin
    for tag in 1..21 loop
        -- What is settled is not asked again.
        continue when tag = 21 and held.state = 3;
        values_of := case tag when 17 then read.events when 20 then read.checkpoints else read.fields[tag:tag] end;
        foreach value in array values_of loop
            continue when value is null;
            head := head || semel._byte(tag) || semel._varint(octet_length(value)) || value;
        end loop;
    end loop;
    -- When a store has to look at it again without being asked.
    held.due := case held.state
        when 1 then semel._number(read.fields[5])
        when 2 then 9223372036854775807
        else least(greatest(settled_at, semel._number(read.fields[1])) + semel._number(read.fields[10]),
                   settled_at + case when read.fields[11] is null then 86400000000
                                     when octet_length(read.fields[11]) > 0 then semel._number(read.fields[11]) end)
        end;
    held.record := head || semel._checksum(held.op, held.state, held.token, held.due, head, held.outcome);
    return held;
end $$;
