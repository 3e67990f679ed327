// One consumer of a group on one stream.
//
// Commands are sent ahead and their replies are read in the order of the commands, whenever the source is called: nothing
// but fetch and flush waits. What is pending belongs to our consumer's name and not to a connection, so that tickets
// outlive a lost connection: after it
//   - acknowledgements without a reply are sent again, which does no harm;
//   - what is in work is claimed anew, and becomes stale if somebody else has it by now (scripts.hpp: hand_over);
//   - what the server had given us in a reply that never came is read again: it is pending for us, but has no ticket.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "consumers/redis/address.hpp"
#include "consumers/redis/entries.hpp"
#include "consumers/redis/held.hpp"
#include "consumers/redis/scripts.hpp"
#include "consumers/redis/wire.hpp"
#include "semel/redis.hpp"

namespace semel::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t ids_max = 500;               // in one command: others want to be served, too
constexpr milliseconds grace{80};                  // for the reply to a read that does not block
constexpr milliseconds claim_every_max{2'000};     // what somebody gave back should not wait for long
constexpr Duration read_open = milliseconds{100};  // how long a read waits at the server, at least
constexpr std::string_view long_ago = "86400000";  // idle for a day: due for everybody

enum class Asked : std::uint8_t { auth, database, group, read, own, claim, acknowledge, keep, give_back, leave };

/// A command without a reply so far.
struct Question {
    Asked asked{};
    milliseconds blocks{0};          ///< how long the server was asked to wait
    std::vector<std::string> ids{};  ///< what it was about, of acknowledge, keep and give_back
};

std::string minted_name() {
    std::array<unsigned char, 8> bytes{};
    SystemRandom{}.fill(bytes);
    return "semel-" + to_hex(bytes);
}

bool says_no_group(std::string_view error) {
    return error.find("NOGROUP") != std::string_view::npos || error.starts_with("UNBLOCKED");
}

class RedisSource final : public Source {
public:
    RedisSource(Options options, Address address)
        : options_(std::move(options)), address_(std::move(address)), minted_(options_.consumer.empty()) {
        if (minted_) options_.consumer = minted_name();
    }
    ~RedisSource() override { close(); }

    Result<std::vector<Delivery>> fetch(std::size_t limit, Duration wait) override;
    Status acknowledge(std::span<const Ticket> done) override;
    Status flush(Duration wait) override;
    Status give_back(std::span<const Ticket> undone) override;
    Status keep(std::span<const Ticket> working) override;
    [[nodiscard]] Duration keep_every() const override { return options_.idle_max / 3; }
    std::vector<Ticket> taken_away() override { return held_.taken_away(); }
    void close() override;
    [[nodiscard]] std::string text() const override { return "redis:" + options_.stream; }

private:
    // connecting
    Status connect();
    void ask_for_what_was_left();
    void disconnect();
    Failure fail(Code code, std::string_view what);
    // asking
    void ask(Question question, const std::vector<std::string_view>& command);
    void ask_for_group();
    bool ask_for_entries(std::size_t limit, Duration left);
    void ask_read(std::size_t limit, milliseconds blocks);
    void ask_own(std::size_t limit);
    void ask_claim(std::size_t limit);
    void ask_acknowledge(std::span<const std::string> ids);
    void ask_hand_over(Asked asked, std::span<const std::string> ids);
    [[nodiscard]] bool asked_for_entries() const;
    // answers
    Result<bool> hear(Steady deadline);
    Status serve();
    Status answer(const Question& question, const redisReply& reply);
    Status answer_error(const Question& question, std::string_view error);
    void answer_read(const redisReply& reply);
    void answer_own(const redisReply& reply);
    void answer_claim(const redisReply& reply);
    void answer_hand_over(const Question& question, const redisReply& reply);
    void report_trimmed(const std::string& id);
    std::vector<Delivery> take_ready(std::size_t limit);
    [[nodiscard]] std::size_t unconfirmed() const;

    Options options_;
    Address address_;
    bool minted_;
    bool closed_ = false;

    std::optional<Wire> wire_;
    Status broken_ = Done{};  ///< what a send came to; reported by the next call that waits
    std::deque<Question> questions_;
    Steady first_since_{};   ///< since when the first question is the first
    bool answered_ = false;  ///< anything, on this connection

    Held held_;
    std::vector<std::string> unsent_;  ///< acknowledged, while there was no connection
    std::deque<Entry> ready_;          ///< pending for us and not delivered yet
    std::deque<std::string> trimmed_;  ///< to be reported

    std::optional<std::string> own_from_;  ///< what is pending for us is being read, from after this id
    std::string claim_from_ = "0-0";
    Steady claim_at_{};
    bool claim_again_ = false;  ///< something became idle behind the place where the search is
};

// ---- connecting ------------------------------------------------------------------------------------------------

Status RedisSource::connect() {
    if (closed_) return Failure{Code::invalid, fmt::format("{} is closed", text())};
    if (wire_ && broken_.ok()) return Done{};
    if (wire_) return fail(Code::unavailable, broken_.failure().message);
    auto wire = Wire::begin(address_);
    if (!wire) return fail(Code::unavailable, wire.failure().message);
    wire_ = std::move(wire).value();
    answered_ = false;
    if (!address_.password.empty()) {
        std::vector<std::string_view> command{"AUTH"};
        if (!address_.user.empty()) command.push_back(address_.user);
        command.push_back(address_.password);
        ask({Asked::auth}, command);
    }
    if (address_.database != 0) ask({Asked::database}, {"SELECT", std::to_string(address_.database)});
    ask_for_group();
    ask_for_what_was_left();
    return Done{};
}

void RedisSource::ask_for_what_was_left() {
    const std::vector<std::string> unsent = std::exchange(unsent_, {});
    ask_acknowledge(unsent);
    ask_hand_over(Asked::keep, held_.all());
    own_from_ = "0-0";
    claim_from_ = "0-0";
    claim_at_ = steady_clock::now();
}

void RedisSource::disconnect() {
    wire_.reset();
    broken_ = Done{};
    for (Question& question : std::exchange(questions_, {})) {
        if (question.asked == Asked::acknowledge)
            unsent_.insert(unsent_.end(), question.ids.begin(), question.ids.end());
    }
    ready_.clear();  // pending for us: they are read again
}

Failure RedisSource::fail(Code code, std::string_view what) {
    disconnect();
    return {code, fmt::format("fetch {} from {}: {}", text(), address_.text(), what)};
}

// ---- asking ----------------------------------------------------------------------------------------------------

void RedisSource::ask(Question question, const std::vector<std::string_view>& command) {
    if (questions_.empty()) first_since_ = steady_clock::now();
    questions_.push_back(std::move(question));
    if (auto sent = wire_->send(command); !sent && broken_.ok()) broken_ = std::move(sent);
}

void RedisSource::ask_for_group() {
    ask({Asked::group}, {"XGROUP", "CREATE", options_.stream, options_.group, "0", "MKSTREAM"});
}

bool RedisSource::asked_for_entries() const {
    return std::ranges::any_of(questions_, [](const Question& question) {
        return question.asked == Asked::read || question.asked == Asked::own || question.asked == Asked::claim;
    });
}

/// False: not for new ones yet.
bool RedisSource::ask_for_entries(std::size_t limit, Duration left) {
    if (own_from_) {
        ask_own(limit);
        return false;
    }
    const Steady now = steady_clock::now();
    const Duration until_claim = std::chrono::ceil<Duration>(claim_at_ - now);
    if (until_claim <= Duration{0}) {
        ask_claim(limit);
        ask_read(limit, milliseconds{0});  // what is new need not wait until all that is pending has been searched
    } else {
        // Longer than this fetch waits: what is asked meanwhile is answered after it, an acknowledgement together with the
        // next message. A read that ended sooner would have the server sync the acknowledgement by itself, just before.
        const Duration open =
            left > Duration{0} ? std::max<Duration>(left, std::min(read_open, options_.idle_max / 10)) : left;
        ask_read(limit, std::chrono::ceil<milliseconds>(std::min(open, until_claim)));
    }
    return true;
}

void RedisSource::ask_read(std::size_t limit, milliseconds blocks) {
    const std::string count = std::to_string(limit);
    const std::string block = std::to_string(blocks.count());
    std::vector<std::string_view> command{"XREADGROUP", "GROUP", options_.group, options_.consumer, "COUNT", count};
    // BLOCK 0 would be for ever.
    if (blocks > milliseconds{0}) command.insert(command.end(), {"BLOCK", block});
    command.insert(command.end(), {"STREAMS", options_.stream, ">"});
    ask({Asked::read, std::max(blocks, milliseconds{0})}, command);
}

void RedisSource::ask_own(std::size_t limit) {
    const std::string count = std::to_string(limit);
    ask({Asked::own}, {"EVAL", read_own, "1", options_.stream, options_.group, options_.consumer, *own_from_, count});
}

void RedisSource::ask_claim(std::size_t limit) {
    const std::string idle = std::to_string(std::chrono::ceil<milliseconds>(options_.idle_max).count());
    const std::string count = std::to_string(limit);
    if (claim_from_ == "0-0") claim_again_ = false;
    ask({Asked::claim},
        {"EVAL", claim_idle, "1", options_.stream, options_.group, options_.consumer, idle, claim_from_, count});
}

void RedisSource::ask_acknowledge(std::span<const std::string> ids) {
    for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), ids_max))) {
        const auto some = ids.first(std::min(ids.size(), ids_max));
        std::vector<std::string_view> command{"XACK", options_.stream, options_.group};
        command.insert(command.end(), some.begin(), some.end());
        ask({Asked::acknowledge, {}, {some.begin(), some.end()}}, command);
    }
}

void RedisSource::ask_hand_over(Asked asked, std::span<const std::string> ids) {
    const bool keeps = asked == Asked::keep;
    const std::string_view to = keeps ? std::string_view(options_.consumer) : given_back;
    for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), ids_max))) {
        const auto some = ids.first(std::min(ids.size(), ids_max));
        std::vector<std::string_view> command{"EVAL",         hand_over,         "1", options_.stream,
                                              options_.group, options_.consumer, to,  keeps ? "0" : long_ago};
        command.insert(command.end(), some.begin(), some.end());
        ask({asked, {}, {some.begin(), some.end()}}, command);
    }
}

// ---- answers ---------------------------------------------------------------------------------------------------

/// Takes in one reply. False: there is none by the deadline.
Result<bool> RedisSource::hear(Steady deadline) {
    if (!broken_.ok()) return fail(Code::unavailable, broken_.failure().message);
    Steady until = deadline;
    if (!questions_.empty()) {
        const Duration patience = answered_ ? options_.timeout : options_.connect_timeout;
        until = std::min(until, first_since_ + patience + questions_.front().blocks);
    }
    auto reply = wire_->next(until);
    if (!reply) return fail(Code::unavailable, fmt::format("{} (url)", reply.failure().message));
    if (!*reply) {
        if (until == deadline || questions_.empty()) return false;
        return fail(Code::unavailable, answered_
                                           ? fmt::format("no reply in {} ms (timeout)", options_.timeout.count() / 1000)
                                           : fmt::format("no answer in {} ms (url, connect_timeout)",
                                                         options_.connect_timeout.count() / 1000));
    }
    if (questions_.empty()) return fail(Code::unavailable, "a reply that nobody asked for");
    answered_ = true;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    first_since_ = steady_clock::now();
    if (auto taken = answer(question, ***reply); !taken) return taken.failure();
    return true;
}

/// Takes in what has arrived by now.
Status RedisSource::serve() {
    while (wire_ && !questions_.empty()) {
        auto heard = hear(steady_clock::now());
        if (!heard) return heard.failure();
        if (!*heard) break;
    }
    return Done{};
}

Status RedisSource::answer(const Question& question, const redisReply& reply) {
    if (reply.type == REDIS_REPLY_ERROR) return answer_error(question, text_of(reply));
    switch (question.asked) {
        case Asked::read: answer_read(reply); break;
        case Asked::own: answer_own(reply); break;
        case Asked::claim: answer_claim(reply); break;
        case Asked::keep:
        case Asked::give_back: answer_hand_over(question, reply); break;
        case Asked::auth:
        case Asked::database:
        case Asked::group:
        case Asked::acknowledge:
        case Asked::leave: break;
    }
    return Done{};
}

Status RedisSource::answer_error(const Question& question, std::string_view error) {
    if (question.asked == Asked::group && error.starts_with("BUSYGROUP")) return Done{};
    if (says_no_group(error)) {
        // Somebody removed the stream or the group: nothing is pending in it any more, and the new one begins at the
        // stream's beginning.
        for (const std::string& id : held_.all()) held_.lose(id);
        own_from_.reset();
        claim_from_ = "0-0";
        const bool asked_already =
            std::ranges::any_of(questions_, [](const Question& later) { return later.asked == Asked::group; });
        if (!asked_already && question.asked != Asked::leave) ask_for_group();
        return Done{};
    }
    for (const std::string_view later :
         {"LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "OOM", "BUSY ", "NOREPLICAS"}) {
        if (error.starts_with(later)) return fail(Code::unavailable, error);
    }
    for (const std::string_view access : {"NOAUTH", "WRONGPASS"}) {
        if (error.starts_with(access)) return fail(Code::invalid, fmt::format("{} (url)", error));
    }
    if (question.asked == Asked::auth || question.asked == Asked::database || error.starts_with("MOVED"))
        return fail(Code::invalid, fmt::format("{} (url)", error));
    if (error.find("NOPERM") != std::string_view::npos)
        return fail(Code::invalid, fmt::format("{} (url: its user's rights)", error));
    if (error.find("WRONGTYPE") != std::string_view::npos)
        return fail(Code::invalid, fmt::format("key {} is not a stream (stream)", options_.stream));
    if (question.asked == Asked::group) return fail(Code::invalid, fmt::format("{} (group {})", error, options_.group));
    return fail(Code::unavailable, error);
}

void RedisSource::answer_read(const redisReply& reply) {
    if (!is_array(reply) || reply.elements == 0) return;  // nil: nothing new
    const redisReply& stream = *reply.element[0];
    if (!is_array(stream) || stream.elements < 2) return;
    for (Entry& entry : read_entries(*stream.element[1])) ready_.push_back(std::move(entry));
}

/// The entries of the two scripts that count deliveries.
std::vector<Entry> counted_entries(const redisReply& reply) {
    std::vector<Entry> entries = read_entries(*reply.element[1]);
    const redisReply& counts = *reply.element[3];
    for (std::size_t at = 0; at < std::min(entries.size(), counts.elements); ++at)
        entries[at].deliveries = static_cast<std::uint32_t>(std::max(1LL, counts.element[at]->integer));
    return entries;
}

void RedisSource::answer_own(const redisReply& reply) {
    if (!is_array(reply) || reply.elements < 4) return own_from_.reset();
    std::vector<Entry> entries = counted_entries(reply);
    if (entries.empty()) return own_from_.reset();
    own_from_ = entries.back().id;
    std::vector<std::string> gone;
    for (Entry& entry : entries) {
        if (held_.has(entry.id)) continue;  // in work here: it is that delivery which counts
        if (entry.trimmed) {
            report_trimmed(entry.id);
            gone.push_back(entry.id);
        } else {
            ready_.push_back(std::move(entry));
        }
    }
    ask_acknowledge(gone);
}

void RedisSource::answer_claim(const redisReply& reply) {
    if (!is_array(reply) || reply.elements < 4) return;
    claim_from_ = text_of(*reply.element[0]);
    for (Entry& entry : counted_entries(reply)) {
        if (entry.trimmed) {
            report_trimmed(entry.id);
        } else {
            ready_.push_back(std::move(entry));
        }
    }
    const redisReply& trimmed = *reply.element[2];
    for (std::size_t at = 0; at < trimmed.elements; ++at) {
        const std::string id(text_of(*trimmed.element[at]));
        if (!held_.has(id)) report_trimmed(id);  // in work here it can still be finished
    }
    if (claim_from_ != "0-0") return;
    const Duration every = std::min<Duration>(options_.idle_max / 3, claim_every_max);
    claim_at_ = claim_again_ ? steady_clock::now() : steady_clock::now() + every;
}

void RedisSource::answer_hand_over(const Question& question, const redisReply& reply) {
    if (!is_array(reply) || reply.elements < 2) return;
    const redisReply& lost = *reply.element[0];
    const redisReply& trimmed = *reply.element[1];
    if (question.asked == Asked::keep) {
        for (std::size_t at = 0; at < lost.elements; ++at) held_.lose(std::string(text_of(*lost.element[at])));
    }
    for (std::size_t at = 0; at < trimmed.elements; ++at) report_trimmed(std::string(text_of(*trimmed.element[at])));
}

void RedisSource::report_trimmed(const std::string& id) { trimmed_.push_back(id); }

std::vector<Delivery> RedisSource::take_ready(std::size_t limit) {
    std::vector<Delivery> out;
    while (out.size() < limit && !ready_.empty()) {
        Entry entry = std::move(ready_.front());
        ready_.pop_front();
        const Ticket ticket = held_.add(entry.id);
        out.push_back({ticket, to_message(std::move(entry), options_.stream, options_.ordering_field)});
    }
    return out;
}

// ---- the interface ---------------------------------------------------------------------------------------------

Result<std::vector<Delivery>> RedisSource::fetch(std::size_t limit, Duration wait) {
    const Steady deadline = steady_clock::now() + wait;
    if (auto connected = connect(); !connected) return connected.failure();
    if (auto served = serve(); !served) return served.failure();
    bool asked = false;
    while (true) {
        if (auto out = take_ready(limit); !out.empty()) return out;
        if (!trimmed_.empty()) {
            const std::string id = trimmed_.front();
            trimmed_.pop_front();
            return Failure{
                Code::corrupt,
                fmt::format("fetch {}: {}@{} was trimmed from the stream before it was acknowledged; nobody can "
                            "deliver it any more (MAXLEN or MINID of whoever adds to it)",
                            text(), options_.stream, id)};
        }
        const Duration left = std::chrono::ceil<Duration>(deadline - steady_clock::now());
        const bool over = left <= Duration{0};
        if (limit > 0 && !asked_for_entries()) {
            if (asked && over) return std::vector<Delivery>{};
            asked = ask_for_entries(limit, left);
        }
        // A server looks only every 100 ms whether it has blocked for long enough: such a read goes on in the next fetch.
        const bool blocks = std::ranges::any_of(questions_, [](const Question& one) { return one.blocks.count() > 0; });
        auto heard = hear(limit == 0 || blocks ? deadline : deadline + grace);
        if (!heard) return heard.failure();
        if (!*heard) return std::vector<Delivery>{};
    }
}

Status RedisSource::acknowledge(std::span<const Ticket> done) {
    const std::vector<std::string> ids = held_.remove(done);
    if (wire_) {
        ask_acknowledge(ids);
    } else {
        unsent_.insert(unsent_.end(), ids.begin(), ids.end());
    }
    return Done{};
}

std::size_t RedisSource::unconfirmed() const {
    std::size_t count = unsent_.size();
    for (const Question& question : questions_) {
        if (question.asked == Asked::acknowledge) count += question.ids.size();
    }
    return count;
}

Status RedisSource::flush(Duration wait) {
    const Steady deadline = steady_clock::now() + wait;
    while (unconfirmed() > 0) {
        if (auto connected = connect(); !connected) return connected.failure();
        auto heard = hear(deadline);
        if (!heard) return heard.failure();
        if (!*heard)
            return Failure{Code::unavailable, fmt::format("flush {} to {}: no reply to {} acknowledgements in {} ms",
                                                          text(), address_.text(), unconfirmed(), wait.count() / 1000)};
    }
    return Done{};
}

Status RedisSource::give_back(std::span<const Ticket> undone) {
    const std::vector<std::string> ids = held_.remove(undone);
    if (ids.empty() || !wire_) return Done{};  // without a connection: read again as ours as soon as there is one
    ask_hand_over(Asked::give_back, ids);
    claim_again_ = true;
    if (claim_from_ == "0-0") claim_at_ = steady_clock::now();
    return Done{};
}

Status RedisSource::keep(std::span<const Ticket> working) {
    if (auto connected = connect(); !connected) return connected.failure();
    ask_hand_over(Asked::keep, held_.ids(working));
    return serve();
}

void RedisSource::close() {
    if (closed_) return;
    const bool flushed = flush(options_.timeout).ok();
    if (flushed && wire_) {
        const Steady deadline = steady_clock::now() + options_.timeout;
        ask({Asked::leave}, {"EVAL", leave, "1", options_.stream, options_.group, options_.consumer, long_ago,
                             minted_ ? "1" : "0", given_back});
        while (wire_ && !questions_.empty()) {
            auto heard = hear(deadline);
            if (!heard || !*heard) break;
        }
    }
    closed_ = true;
    disconnect();
}

}  // namespace

Result<std::unique_ptr<Source>> open(Options options) {
    auto address = parse_address(options.url);
    if (!address) return address.failure();
    const auto refused = [](std::string_view why) {
        return Failure{Code::invalid, fmt::format("redis source: {}", why)};
    };
    if (options.stream.empty()) return refused("no stream is named (stream)");
    if (options.group.empty()) return refused("no group is named (group)");
    if (options.consumer == given_back) return refused("this name holds what was given back (consumer)");
    if (options.idle_max < milliseconds{10}) return refused("less than 10 ms is too short to work in (idle_max)");
    return std::unique_ptr<Source>(std::make_unique<RedisSource>(std::move(options), std::move(address).value()));
}

}  // namespace semel::redis
