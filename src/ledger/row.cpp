#include "ledger/row.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.hpp"

namespace semel {
namespace {

constexpr std::uint8_t format_version = 1;
constexpr std::size_t checksum_bytes = 8;

enum Flag : std::uint8_t { doubt = 1, touched = 2, unfilled = 4, kept = 8 };

/// A field is its tag, then a counted value. Fields stand in the order of their tags; one at its default is left out.
enum class Tag : std::uint8_t {
    key_time = 1,
    correlation = 2,
    attempt = 3,
    owner = 4,
    lease_until = 5,
    on_unknown = 6,
    dedup_window = 7,
    lease = 8,
    effect_deadline = 9,
    retention = 10,
    response_retention = 11,  ///< empty value: for ever
    created = 12,
    tries = 13,
    unknown_since = 14,
    resolved_by = 15,
    resolved_why = 16,
    event = 17,  ///< repeated
    status = 18,
    settled_at = 19,
    checkpoint = 20,  ///< repeated
    request = 21,
};

// What a missing field means. Part of the format: these never change, whatever the defaults of the program become.
constexpr Duration lease_default = std::chrono::seconds{30};
constexpr Duration effect_deadline_default = std::chrono::seconds{30};
constexpr Duration response_retention_default = std::chrono::hours{24};

std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) {
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

class FieldWriter {
public:
    explicit FieldWriter(ByteWriter& out) : out_(out) {}

    void bytes(Tag tag, std::string_view value) {
        out_.u8(static_cast<std::uint8_t>(tag));
        out_.counted(value);
    }
    void number(Tag tag, std::int64_t value) {
        ByteWriter inner;
        inner.varint(zigzag(value));
        bytes(tag, inner.bytes());
    }
    void time(Tag tag, TimePoint at) {
        if (at != TimePoint{}) number(tag, micros(at));
    }
    void time(Tag tag, const std::optional<TimePoint>& at) {
        if (at) number(tag, micros(*at));
    }
    void duration(Tag tag, Duration value, Duration missing) {
        if (value != missing) number(tag, value.count());
    }
    void text(Tag tag, std::string_view value) {
        if (!value.empty()) bytes(tag, value);
    }

private:
    ByteWriter& out_;
};

std::string head_of(const Record& r) {
    ByteWriter out;
    out.u8(format_version);
    out.u8(static_cast<std::uint8_t>((r.doubt ? doubt : 0) | (r.touched ? touched : 0) | (r.unfilled ? unfilled : 0) |
                                     (r.outcome.kept ? kept : 0)));
    out.u8(r.fingerprint.version);
    out.raw(view(r.fingerprint.bytes));

    FieldWriter field(out);
    field.time(Tag::key_time, r.key_time);
    field.text(Tag::correlation, r.correlation);
    if (r.attempt != Attempt{}) field.bytes(Tag::attempt, view(r.attempt.bytes));
    if (r.owner.value != 0) field.number(Tag::owner, static_cast<std::int64_t>(r.owner.value));
    field.time(Tag::lease_until, r.lease_until);
    const Policy& p = r.policy;
    if (p.on_unknown != OnUnknown::refuse) field.number(Tag::on_unknown, static_cast<std::int64_t>(p.on_unknown));
    field.duration(Tag::dedup_window, p.dedup_window, Duration{0});
    field.duration(Tag::lease, p.lease, lease_default);
    field.duration(Tag::effect_deadline, p.effect_deadline, effect_deadline_default);
    if (p.retention.identity) field.number(Tag::retention, p.retention.identity->count());
    if (!p.retention.response) field.bytes(Tag::response_retention, {});
    if (p.retention.response && *p.retention.response != response_retention_default)
        field.number(Tag::response_retention, p.retention.response->count());
    field.time(Tag::created, r.created);
    if (r.tries != 1) field.number(Tag::tries, r.tries);
    field.time(Tag::unknown_since, r.unknown_since);
    field.text(Tag::resolved_by, r.resolved_by);
    field.text(Tag::resolved_why, r.resolved_why);
    for (const HistoryEntry& event : r.history) {
        ByteWriter inner;
        inner.u8(static_cast<std::uint8_t>(event.what));
        inner.varint(zigzag(micros(event.at)));
        inner.varint(event.token.value);
        field.bytes(Tag::event, inner.bytes());
    }
    if (r.outcome.status != 0) field.number(Tag::status, r.outcome.status);
    field.time(Tag::settled_at, r.settled_at);
    for (const Checkpoint& checkpoint : r.checkpoints) {
        ByteWriter inner;
        inner.counted(checkpoint.name);
        inner.raw(checkpoint.value);
        field.bytes(Tag::checkpoint, inner.bytes());
    }
    field.text(Tag::request, r.request);
    return out.take();
}

std::int64_t number_in(std::string_view value, bool& good) {
    ByteReader in(value);
    const std::int64_t number = unzigzag(in.varint());
    good = good && in.ok() && in.at_end();
    return number;
}

/// Puts one field into the record. False: the tag or the value is not of this format.
bool take_field(Record& r, Tag tag, std::string_view value) {
    bool good = true;
    const auto time = [&] { return time_from_micros(number_in(value, good)); };
    const auto duration = [&] { return Duration{number_in(value, good)}; };
    switch (tag) {
        case Tag::key_time: r.key_time = time(); return good;
        case Tag::correlation: r.correlation = value; return true;
        case Tag::attempt:
            if (value.size() != r.attempt.bytes.size()) return false;
            std::ranges::copy(value, r.attempt.bytes.begin());
            return true;
        case Tag::owner: r.owner.value = static_cast<std::uint64_t>(number_in(value, good)); return good;
        case Tag::lease_until: r.lease_until = time(); return good;
        case Tag::on_unknown: {
            const std::int64_t policy = number_in(value, good);
            if (!good || policy < 0 || policy > static_cast<std::int64_t>(OnUnknown::joined)) return false;
            r.policy.on_unknown = static_cast<OnUnknown>(policy);
            return true;
        }
        case Tag::dedup_window: r.policy.dedup_window = duration(); return good;
        case Tag::lease: r.policy.lease = duration(); return good;
        case Tag::effect_deadline: r.policy.effect_deadline = duration(); return good;
        case Tag::retention: r.policy.retention.identity = duration(); return good;
        case Tag::response_retention:
            if (value.empty())
                r.policy.retention.response.reset();
            else
                r.policy.retention.response = duration();
            return good;
        case Tag::created: r.created = time(); return good;
        case Tag::tries: r.tries = static_cast<std::uint32_t>(number_in(value, good)); return good;
        case Tag::unknown_since: r.unknown_since = time(); return good;
        case Tag::resolved_by: r.resolved_by = value; return true;
        case Tag::resolved_why: r.resolved_why = value; return true;
        case Tag::event: {
            ByteReader in(value);
            const auto what = static_cast<Transition>(in.u8());
            const TimePoint at = time_from_micros(unzigzag(in.varint()));
            r.history.push_back({what, at, Token{in.varint()}});
            return in.ok() && in.at_end();
        }
        case Tag::status: r.outcome.status = static_cast<std::int32_t>(number_in(value, good)); return good;
        case Tag::settled_at: r.settled_at = time(); return good;
        case Tag::checkpoint: {
            ByteReader in(value);
            const std::string_view key = in.counted();
            if (!in.ok()) return false;
            const std::string_view rest =
                value.substr(static_cast<std::size_t>(key.data() + key.size() - value.data()));
            r.checkpoints.push_back({std::string(key), std::string(rest)});
            return true;
        }
        case Tag::request: r.request = value; return true;
    }
    return false;
}

Failure corrupt(const Row& row, std::string_view what) {
    return {Code::corrupt,
            fmt::format("operation {}: {}; the row is neither replayed nor run again (see docs/formats/record.md)",
                        to_hex(row.id.bytes), what)};
}

}  // namespace

std::string checksum(const Row& row, std::string_view head) {
    ByteWriter covered;
    covered.raw(view(row.id.bytes));
    covered.u8(static_cast<std::uint8_t>(row.state));
    covered.be64(row.token.value);
    covered.be64(static_cast<std::uint64_t>(row.due.value_or(-1)));
    covered.raw(head);
    if (row.outcome) covered.raw(*row.outcome);
    const Sha256 digest = sha256(covered.bytes());
    return std::string(view(digest).substr(0, checksum_bytes));
}

Row to_row(const Record& record) {
    Row row{.id = record.id,
            .token = record.token,
            .due = {},
            .state = record.state,
            .scope = {},
            .key = {},
            .record = head_of(record),
            .outcome = {}};
    if (const auto due = due_at(record)) row.due = micros(*due);
    if (record.operation) {
        row.scope = record.operation->scope.text();
        row.key = record.operation->key.text();
    }
    if (record.state == State::settled && record.outcome.kept) row.outcome = record.outcome.body;
    row.record += checksum(row, row.record);
    return row;
}

Result<Record> from_row(const Row& row) {
    constexpr std::size_t fixed_bytes = 3 + 16;
    if (row.record.size() < fixed_bytes + checksum_bytes) return corrupt(row, "its record is cut short");
    const std::string_view head = std::string_view(row.record).substr(0, row.record.size() - checksum_bytes);
    if (std::string_view(row.record).substr(head.size()) != checksum(row, head))
        return corrupt(row, "its checksum does not match");
    if (row.state != State::running && row.state != State::unknown && row.state != State::settled)
        return corrupt(row, "its state is none of running, unknown, settled");

    ByteReader in(head);
    if (in.u8() != format_version) return corrupt(row, "its format is newer than this program");
    Record r;
    r.id = row.id;
    r.token = row.token;
    r.state = row.state;
    const std::uint8_t flags = in.u8();
    r.doubt = (flags & doubt) != 0;
    r.touched = (flags & touched) != 0;
    r.unfilled = (flags & unfilled) != 0;
    r.outcome.kept = (flags & kept) != 0;
    r.fingerprint.version = in.u8();
    std::ranges::copy(in.raw(16), r.fingerprint.bytes.begin());
    r.policy = {.on_unknown = OnUnknown::refuse,
                .dedup_window = Duration{0},
                .lease = lease_default,
                .effect_deadline = effect_deadline_default,
                .retention = {.identity = {}, .response = response_retention_default}};
    while (!in.at_end() && in.ok()) {
        const auto tag = static_cast<Tag>(in.u8());
        const std::string_view value = in.counted();
        if (!in.ok() || !take_field(r, tag, value))
            return corrupt(row, "its record has a field this program does not know");
    }
    if (row.outcome) r.outcome.body = *row.outcome;
    if (row.outcome.has_value() != (r.state == State::settled && r.outcome.kept))
        return corrupt(row, "its outcome is missing or should not be there");
    if (r.state == State::settled && !r.settled_at) return corrupt(row, "it is settled without a time");
    if (row.scope.has_value() != row.key.has_value())
        return corrupt(row, "it has a scope without a key, or a key without a scope");
    if (row.scope) {
        auto scope = Scope::parse(*row.scope);
        auto key = Key::parse(*row.key);
        if (!scope || !key) return corrupt(row, "its scope or key cannot be read");
        r.operation = Operation{std::move(*scope), std::move(*key)};
        if (r.operation->id() != row.id) return corrupt(row, "its scope and key belong to another operation");
    }
    return r;
}

}  // namespace semel
