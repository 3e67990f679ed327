#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.hpp"
#include "ledger/mutation.hpp"

namespace semel::enumerate {
namespace {

const std::array<Outcome, 6> outcomes{paid,
                                      declined,
                                      not_kept,
                                      Outcome::tombstone(0),
                                      Outcome::tombstone(paid.status),
                                      Outcome::tombstone(declined.status)};

/// Older than any rule looks back.
constexpr int long_ago = -std::max({identity_ticks, response_ticks, dedup_ticks});

/// Packs small numbers into one word, lowest bits first.
class Packer {
public:
    template <class T>
    void put(T value, unsigned bits) {
        const auto small = static_cast<std::uint64_t>(value);
        SEMEL_ASSERT(small < (std::uint64_t{1} << bits) && used_ + bits <= 64,
                     "a packed world has room for every value");
        word_ |= small << used_;
        used_ += bits;
    }
    void put_ticks(TimePoint at, int lowest, unsigned bits) { put(std::max(ticks_until(at), lowest) - lowest, bits); }
    [[nodiscard]] Packed word() const { return word_; }

private:
    Packed word_ = 0;
    unsigned used_ = 0;
};

class Unpacker {
public:
    explicit Unpacker(Packed word) : word_(word) {}
    template <class T = std::size_t>
    T get(unsigned bits) {
        const auto value = word_ & ((std::uint64_t{1} << bits) - 1);
        word_ >>= bits;
        return static_cast<T>(value);
    }
    bool flag() { return get<bool>(1); }
    TimePoint get_ticks(int lowest, unsigned bits) { return in_ticks(get<int>(bits) + lowest); }

private:
    Packed word_;
};

/// Attempts in the order of their last grant: the newest is 1.
void renumber_attempts(Outside& outside) {
    std::array<std::uint8_t, stranger + 1> number{};
    std::uint8_t next = 0;
    for (std::size_t i = 0; i < outside.granted; ++i) {
        std::uint8_t& known = number.at(outside.grants[i].attempt);
        if (known == 0) known = ++next;
        outside.grants[i].attempt = known;
    }
}

/// With everything fixed that can no longer matter: a superseded holder is one whose commands are Fenced, whatever it did.
Outside simplified(Outside outside, const std::optional<Record>& record) {
    renumber_attempts(outside);
    const bool open = record && record->state != State::settled;
    for (std::size_t i = 0; i < outside.granted; ++i) {
        Grant& grant = outside.grants[i];
        if (i > 0 || !open) grant = Grant{.attempt = grant.attempt};
        if (open && record->state != State::running) grant.used = false;
    }
    if (!open) outside.begun = false;
    return outside;
}

/// With everything fixed that no rule reads.
Record simplified(Record record) {
    const bool settled = record.state == State::settled;
    record.token = token_of(0);
    record.attempt = record.operation ? attempt_of(1) : Attempt{};
    record.owner = record.state == State::running ? epoch_now : epoch_before;
    record.tries = 1;
    record.history.clear();
    record.resolved_by.clear();
    record.resolved_why.clear();
    if (record.unknown_since) record.unknown_since = now;
    if (record.settled_at) record.settled_at = std::max(*record.settled_at, in_ticks(long_ago));
    record.lease_until = settled ? now : std::max(record.lease_until, in_ticks(-deadline_ticks));
    if (settled) {
        record.touched = false;
        record.policy = Policy{.retention = record.policy.retention};
    }
    const bool reads_created = !settled && record.policy.on_unknown == OnUnknown::retry;
    record.created = reads_created ? std::max(record.created, in_ticks(long_ago)) : now;
    return record;
}

void pack_outside(Packer& packer, const Outside& outside) {
    packer.put(outside.granted, 2);
    for (std::size_t i = 0; i < outside.granted; ++i) packer.put(outside.grants[i].attempt, 2);
    packer.put(outside.grants[0].stage, 2);
    packer.put(outside.grants[0].lease, 2);
    packer.put(outside.grants[0].used, 1);
    packer.put(outside.age, 5);
    packer.put(outside.begun, 1);
    packer.put(outside.ended, 1);
}

Outside unpack_outside(Unpacker& unpacker) {
    Outside outside;
    outside.granted = unpacker.get<std::uint8_t>(2);
    for (std::size_t i = 0; i < outside.granted; ++i) outside.grants[i].attempt = unpacker.get<std::uint8_t>(2);
    outside.grants[0].stage = unpacker.get<Stage>(2);
    outside.grants[0].lease = unpacker.get<std::uint8_t>(2);
    outside.grants[0].used = unpacker.flag();
    outside.age = unpacker.get<int>(5);
    outside.begun = unpacker.flag();
    outside.ended = unpacker.flag();
    return outside;
}

void pack_record(Packer& packer, const Record& record) {
    packer.put(record.state, 2);
    if (record.state == State::settled) {
        packer.put(!record.operation, 1);
        packer.put(record.unfilled, 1);
        packer.put(std::ranges::find(outcomes, record.outcome) - outcomes.begin(), 3);
        packer.put_ticks(*record.settled_at, long_ago, 4);
        return;
    }
    packer.put(record.doubt, 1);
    packer.put(record.touched, 1);
    packer.put(record.checkpoints.empty() ? 0 : record.checkpoints[0] == checkpoint(0) ? 1 : 2, 2);
    packer.put(record.request.empty() ? 0 : record.request == requests[0] ? 1 : 2, 2);
    packer.put_ticks(record.lease_until, -deadline_ticks, 3);
    packer.put(record.policy.on_unknown, 2);
    if (record.policy.on_unknown == OnUnknown::retry) packer.put_ticks(record.created, long_ago, 4);
}

Record blank_record(const World& world) {
    return {.id = operation_id(),
            .operation = operation(),
            .key_time = key_time(world),
            .fingerprint = fingerprints[0],
            .correlation = "walk",
            .token = token_of(0),
            .attempt = attempt_of(1),
            .owner = epoch_before,
            .lease_until = now,
            .policy = policy_of(OnUnknown::refuse, *world.setting),
            .request = {},
            .created = now,
            .unknown_since = {},
            .resolved_by = {},
            .resolved_why = {},
            .history = {},
            .outcome = {},
            .settled_at = {},
            .checkpoints = {}};
}

void unpack_settled(Unpacker& unpacker, const World& world, Record& record) {
    const bool tombstone = unpacker.flag();
    record.unfilled = unpacker.flag();
    record.outcome = outcomes.at(unpacker.get(3));
    record.settled_at = unpacker.get_ticks(long_ago, 4);
    record.policy = Policy{.retention = record.policy.retention};
    if (!tombstone) return;
    record.operation.reset();
    record.correlation.clear();
    record.attempt = {};
    if (!world.setting->identity) record.key_time.reset();
}

void unpack_open(Unpacker& unpacker, const World& world, Record& record) {
    record.doubt = unpacker.flag();
    record.touched = unpacker.flag();
    if (const auto value = unpacker.get(2)) record.checkpoints = {checkpoint(value - 1)};
    if (const auto value = unpacker.get(2)) record.request = requests.at(value - 1);
    record.lease_until = unpacker.get_ticks(-deadline_ticks, 3);
    record.policy = policy_of(unpacker.get<OnUnknown>(2), *world.setting);
    if (record.policy.on_unknown == OnUnknown::retry) record.created = unpacker.get_ticks(long_ago, 4);
    if (record.state == State::running) record.owner = epoch_now;
    if (record.state == State::unknown) record.unknown_since = now;
}

}  // namespace

const std::array<Fingerprint, 3> fingerprints{Fingerprint{{1}, 1}, Fingerprint{{2}, 1}, Fingerprint{{1}, 2}};

World first_world(const Setting& setting) { return {&setting, {}, {}}; }

Packed pack(const World& world) {
    Packer packer;
    pack_outside(packer, simplified(world.outside, world.record));
    packer.put(world.record.has_value(), 1);
    if (world.record) pack_record(packer, *world.record);
    return packer.word();
}

World unpack(Packed packed, const Setting& setting) {
    Unpacker unpacker(packed);
    World world = first_world(setting);
    world.outside = unpack_outside(unpacker);
    if (!unpacker.flag()) return world;
    Record record = blank_record(world);
    record.state = unpacker.get<State>(2);
    if (record.state == State::settled)
        unpack_settled(unpacker, world, record);
    else
        unpack_open(unpacker, world, record);
    world.record = std::move(record);
    return world;
}

bool survives_packing(const World& world) {
    const World back = unpack(pack(world), *world.setting);
    if (back.outside != simplified(world.outside, world.record)) return false;
    if (!world.record || !back.record) return world.record.has_value() == back.record.has_value();
    return simplified(*back.record) == simplified(*world.record);
}

Token fresh_token([[maybe_unused]] const World& world) {
    const Token next{token_of(0).value + 1};
    return SEMEL_MUTATION(token_reset_after_release, next, world.record ? next : Token{1});
}

Attempt attempt_of(std::uint8_t number) { return {{number}}; }

const Operation& operation() {
    static const Operation walked{Scope::make("acme", "payments").value(), Key::parse("k1").value()};
    return walked;
}

const OperationId& operation_id() {
    static const OperationId id = operation().id();
    return id;
}

std::optional<TimePoint> key_time(const World& world) {
    if (!world.setting->key_time) return std::nullopt;
    return in_ticks(*world.setting->key_time - world.outside.age);
}

Policy policy_of(OnUnknown on_unknown, const Setting& setting) {
    const auto ticks = [](int count) { return count * tick; };
    return {.on_unknown = on_unknown,
            .dedup_window = ticks(on_unknown == OnUnknown::retry ? dedup_ticks : 0),
            .lease = ticks(lease_ticks),
            .effect_deadline = ticks(deadline_ticks),
            .retention = {setting.identity.transform(ticks), setting.response.transform(ticks)}};
}

Checkpoint checkpoint(std::size_t value) { return {"step", value == 0 ? "first" : "second"}; }

std::string text(const World& world) {
    if (!world.record) return "absent";
    const Record& record = *world.record;
    std::string line{name(record.state)};
    if (record.state == State::settled)
        return line +
               fmt::format(" {} {}", record.outcome.status, record.outcome.kept ? record.outcome.body : "(no body)");
    line += fmt::format(", {}, lease {:+}", name(record.policy.on_unknown), ticks_until(record.lease_until));
    if (record.doubt) line += ", doubt";
    if (record.touched) line += ", touched";
    if (!record.checkpoints.empty()) line += ", checkpoint " + record.checkpoints[0].value;
    if (!record.request.empty()) line += ", request '" + record.request + "'";
    if (world.outside.begun) line += "; an effect has begun";
    return line;
}

}  // namespace semel::enumerate
