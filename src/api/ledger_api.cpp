#include "api/ledger_api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <mutex>

#include "api/answers.hpp"
#include "api/commands.hpp"
#include "base/json.hpp"

namespace semel::api {
namespace {

using http::MakeReply;
using http::Problem;
using http::Reply;
using Done = std::move_only_function<void(MakeReply)>;

constexpr std::string_view prefix = "/v1/";
/// Lookups wait for the store; this many at once.
constexpr std::size_t lookups_max = 2;
/// Told of a lease whose length could not be looked up: whoever renews by it is never late.
constexpr Duration lease_careful = std::chrono::seconds{1};

/// What is asked for, by path and method.
enum class Page : std::uint8_t { command, batch, operations, openapi, none };

Page page_of(std::string_view path) {
    if (!path.starts_with(prefix)) return Page::none;
    path.remove_prefix(prefix.size());
    if (path == "batch") return Page::batch;
    if (path == "operations") return Page::operations;
    if (path == "openapi.yaml") return Page::openapi;
    return is_command(path) ? Page::command : Page::none;
}

Reply reply_of(Said answer) {
    Reply reply{.status = answer.status, .body = std::move(answer.json)};
    if (answer.problem) reply.type = std::string(http::problem_content_type);
    if (!answer.retry_after.empty()) reply.fields.emplace_back("Retry-After", std::move(answer.retry_after));
    return reply;
}

Reply unauthenticated() {
    Reply reply =
        reply_of(said(Problem::tenant_missing, {.detail = "Authorization: Bearer with a token of `api.tokens` "
                                                          "is needed"}));
    reply.fields.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
}

Reply not_allowed(std::string_view allowed) {
    Reply reply = reply_of(
        said(Problem::request_malformed, {.detail = fmt::format("only {} is served here", allowed), .status = 405}));
    reply.fields.emplace_back("Allow", allowed);
    return reply;
}

bool is_claim(const Asked& asked) { return std::holds_alternative<Claim>(asked.command); }

// ---- what is counted -----------------------------------------------------------------------------------------------

class Counts {
public:
    void add(std::string_view command, std::string_view answer) {
        const std::lock_guard lock(mutex_);
        ++counts_[{std::string(command), std::string(answer)}];
    }
    [[nodiscard]] std::string text() const {
        std::string out =
            "# HELP semel_api_answers_total What the Ledger API answered\n# TYPE semel_api_answers_total counter\n";
        const std::lock_guard lock(mutex_);
        for (const auto& [names, count] : counts_)
            out += fmt::format("semel_api_answers_total{{command=\"{}\",answer=\"{}\"}} {}\n", names.first,
                               names.second, count);
        return out;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;  // guarded by mutex_
};

std::string_view name_of(const Command& command) {
    return std::visit(match{[](const Claim&) { return "claim"; }, [](const Renew&) { return "renew"; },
                            [](const SaveCheckpoint&) { return "checkpoint"; }, [](const Settle&) { return "settle"; },
                            [](const Release&) { return "release"; }, [](const Abandon&) { return "abandon"; },
                            [](const Resolve&) { return "resolve"; }},
                      command);
}

// ---- commands on their way -----------------------------------------------------------------------------------------

/// The groups of one request. Answered by the committer's threads, given up by the listener's.
struct Call {
    Call(Committer& to, Groups commands, bool one, Done on_done, Counts& counted)
        : committer(to), groups(std::move(commands)), lone(one), counts(counted), done(std::move(on_done)) {
        answers.resize(groups.size());
        waiting.resize(groups.size());
        leases.resize(groups.size());
        for (std::size_t i = 0; i < groups.size(); ++i) {
            leases[i].resize(groups[i].size(), Duration{0});
            for (std::size_t j = 0; j < groups[i].size(); ++j) leases[i][j] = groups[i][j].lease;
            // Only what may be released is given up as a claim: see the header.
            const bool ours = std::ranges::any_of(groups[i], is_claim) &&
                              std::ranges::none_of(groups[i], [](const Asked& a) { return a.attempt_given; });
            if (ours) waiting[i] = std::make_shared<Waiting>();
        }
        left = groups.size();
    }

    Committer& committer;
    const Groups groups;  // their commands, but for ids and keys, have gone to the committer
    const bool lone;      ///< one command, not a batch
    Counts& counts;
    std::vector<std::shared_ptr<Waiting>> waiting;  // of groups whose grants may be released

    std::mutex mutex;
    // guarded by mutex:
    std::vector<std::optional<GroupAnswer>> answers;
    std::vector<std::vector<Duration>> leases;
    std::size_t left = 0;
    Done done;  ///< empty: answered, or given up
};

using CallPtr = std::shared_ptr<Call>;

Said said_of(const Call& call, std::size_t group, std::size_t command) {
    const Asked& asked = call.groups[group][command];
    const GroupAnswer& answer = *call.answers[group];
    if (!answer) return said(answer.failure(), asked);
    return said((*answer)[command], asked, call.leases[group][command]);
}

/// Releases what was granted under an attempt that only we know.
void release_grants(const CallPtr& call) {
    for (std::size_t i = 0; i < call->groups.size(); ++i) {
        if (!call->waiting[i] || !call->answers[i] || !*call->answers[i]) continue;
        for (std::size_t j = 0; j < call->groups[i].size(); ++j) {
            const auto* grant = std::get_if<Claimed>(&(**call->answers[i])[j]);
            if (grant == nullptr) continue;
            std::vector<Command> group;
            group.emplace_back(Release{{id_of(call->groups[i][j].command), grant->token, grant->attempt}});
            call->committer.submit(std::move(group), Duration{0}, nullptr, [](GroupAnswer) {});
        }
    }
}

bool has_grant_of_ours(const Call& call) {
    for (std::size_t i = 0; i < call.groups.size(); ++i)
        if (call.waiting[i] && *call.answers[i])
            for (const Answer& each : **call.answers[i])
                if (std::holds_alternative<Claimed>(each)) return true;
    return false;
}

Reply batch_reply(Call& call) {
    std::string out = "{\"groups\":[";
    for (std::size_t i = 0; i < call.groups.size(); ++i) {
        out += i == 0 ? "[" : ",[";
        for (std::size_t j = 0; j < call.groups[i].size(); ++j) {
            Said each = said_of(call, i, j);
            call.counts.add(name_of(call.groups[i][j].command), each.word);
            each.json.pop_back();
            out += fmt::format("{}{{\"status\":{},\"body\":{}}}", j == 0 ? "" : ",", each.status, each.json);
        }
        out += "]";
    }
    return {.body = out + "]}\n"};
}

/// Every group has its answer, and nobody changes them any more.
Reply reply_to(const CallPtr& call) {
    Reply reply;
    if (call->lone) {
        Said one = said_of(*call, 0, 0);
        call->counts.add(name_of(call->groups[0][0].command), one.word);
        reply = reply_of(std::move(one));
    } else {
        reply = batch_reply(*call);
    }
    if (has_grant_of_ours(*call)) reply.undelivered = [call] { release_grants(call); };
    return reply;
}

class PendingCall final : public http::Pending {
public:
    explicit PendingCall(CallPtr call) : call_(std::move(call)) {}
    ~PendingCall() override {
        // The listener ends: nobody will hear of a grant.
        if (auto reply = PendingCall::give_up(); reply && reply->undelivered) reply->undelivered();
    }
    PendingCall(const PendingCall&) = delete;
    PendingCall& operator=(const PendingCall&) = delete;

    std::optional<Reply> give_up() override {
        const std::lock_guard lock(call_->mutex);
        if (!call_->done) return std::nullopt;
        for (std::size_t i = 0; i < call_->groups.size(); ++i) {
            if (call_->answers[i]) continue;
            const auto& waiting = call_->waiting[i];
            if (waiting && !waiting->give_up()) continue;  // its answer is on its way to the call
            // A late grant is released; what else is in its group may be done, and stays done.
            if (waiting && std::ranges::all_of(call_->groups[i], is_claim))
                call_->answers[i] = Failure{Code::unavailable, "no answer in time; a late grant is released"};
            else
                call_->answers[i] = Failure{Code::indeterminate, "no answer in time"};
            --call_->left;
        }
        if (call_->left != 0) return std::nullopt;
        // If this waits for a look at a lease's length, it is told without.
        for (std::size_t i = 0; i < call_->groups.size(); ++i)
            for (Duration& lease : call_->leases[i])
                if (*call_->answers[i]) lease = std::min(lease, lease_careful);
        call_->done = nullptr;
        return reply_to(call_);
    }

private:
    CallPtr call_;
};

/// A lookup on its way.
struct Lookup {
    std::mutex mutex;
    Done done;  // guarded by mutex; empty: answered, or given up
};

class PendingLookup final : public http::Pending {
public:
    explicit PendingLookup(std::shared_ptr<Lookup> lookup) : lookup_(std::move(lookup)) {}
    std::optional<Reply> give_up() override {
        const std::lock_guard lock(lookup_->mutex);
        if (!lookup_->done) return std::nullopt;
        lookup_->done = nullptr;
        return reply_of(said(Problem::store_unavailable, {.detail = "the store did not answer in time"}));
    }

private:
    std::shared_ptr<Lookup> lookup_;
};

/// Of what is answered at once.
class PendingNothing final : public http::Pending {
public:
    std::optional<Reply> give_up() override { return std::nullopt; }
};

}  // namespace

// ---- the API -------------------------------------------------------------------------------------------------------

class LedgerApi::Parts {
public:
    Parts(Committer& to, const LedgerApiOptions& options)
        : committer(to),
          store(to.store()),
          tokens(options.tokens),
          body_bytes_max(options.body_bytes_max),
          timeout(options.timeout),
          resolved_(options.resolved) {}
    ~Parts() { lookups_.join(); }

    [[nodiscard]] const Caller* caller_of(const http::RequestHead& head) const {
        const auto given = head.fields.value("Authorization");
        if (!given || head.fields.count("Authorization") != 1 || !http::name_starts_with(*given, "Bearer "))
            return nullptr;
        return tokens.find(given->substr(7));
    }

    std::unique_ptr<http::Pending> at_once(Done done, std::string_view command, Said answer) {
        counts.add(command, answer.word);
        done([answer = std::move(answer)]() mutable { return reply_of(std::move(answer)); });
        return std::make_unique<PendingNothing>();
    }

    std::unique_ptr<http::Pending> submit(Groups groups, bool lone, Done done) {
        auto call = std::make_shared<Call>(committer, std::move(groups), lone, std::move(done), counts);
        for (std::size_t i = 0; i < call->groups.size(); ++i) {
            std::vector<Command> commands;
            for (const Asked& asked : call->groups[i]) commands.push_back(asked.command);
            committer.submit(std::move(commands), timeout, call->waiting[i],
                             [this, call, i](GroupAnswer answer) { take(call, i, std::move(answer)); });
        }
        return std::make_unique<PendingCall>(call);
    }

    std::unique_ptr<http::Pending> find(Operation operation, Done done) {
        auto lookup = std::make_shared<Lookup>();
        lookup->done = std::move(done);
        boost::asio::post(lookups_, [this, lookup, operation = std::move(operation)] {
            {
                const std::lock_guard lock(lookup->mutex);
                if (!lookup->done) return;
            }
            Said answer = look(operation);
            const std::lock_guard lock(lookup->mutex);
            if (!lookup->done) return;
            counts.add("find", answer.word);
            std::exchange(lookup->done,
                          nullptr)([answer = std::move(answer)]() mutable { return reply_of(std::move(answer)); });
        });
        return std::make_unique<PendingLookup>(std::move(lookup));
    }

    Committer& committer;
    Store& store;
    const Tokens tokens;
    const std::size_t body_bytes_max;
    const Duration timeout;
    Counts counts;

private:
    /// On a thread of the committer.
    void take(const CallPtr& call, std::size_t group, GroupAnswer answer) {
        tell_of_resolves(call->groups[group], answer);
        bool takeover = false;
        {
            const std::lock_guard lock(call->mutex);
            if (call->answers[group]) return;  // given up: a grant is released by the committer
            call->answers[group] = std::move(answer);
            if (--call->left != 0 || !call->done) return;
            takeover = has_takeover(*call);
            if (!takeover) return finish(call);
        }
        boost::asio::post(lookups_, [this, call] { look_at_leases(call); });
    }

    /// "It did not happen" leaves no record that could say who said so.
    void tell_of_resolves(const std::vector<Asked>& commands, const GroupAnswer& answer) const {
        if (!resolved_) return;
        for (std::size_t i = 0; i < commands.size(); ++i) {
            const auto* const command = std::get_if<Resolve>(&commands[i].command);
            if (command == nullptr) continue;
            const Said said_to_it =
                answer ? said((*answer)[i], commands[i], Duration{0}) : said(answer.failure(), commands[i]);
            resolved_({.operation = *commands[i].resolved,
                       .command = *command,
                       .answer = said_to_it.word,
                       .failure = answer ? std::string_view() : answer.failure().message});
        }
    }

    /// With the call's mutex.
    static void finish(const CallPtr& call) {
        if (!call->done) return;
        std::exchange(call->done, nullptr)([call] { return reply_to(call); });
    }

    static bool is_takeover(const Answer& answer) {
        const auto* grant = std::get_if<Claimed>(&answer);
        return grant != nullptr && grant->tries > 1;
    }

    static bool has_takeover(const Call& call) {
        for (const auto& answer : call.answers)
            if (*answer && std::ranges::any_of(**answer, is_takeover)) return true;
        return false;
    }

    /// I12: a lease that was taken over has the length its first claim gave it.
    void look_at_leases(const CallPtr& call) {
        std::vector<std::vector<Duration>> leases;
        {
            const std::lock_guard lock(call->mutex);
            leases = call->leases;
        }
        for (std::size_t i = 0; i < call->groups.size(); ++i) {
            if (!*call->answers[i]) continue;
            for (std::size_t j = 0; j < call->groups[i].size(); ++j) {
                if (!is_takeover((**call->answers[i])[j])) continue;
                const auto found = store.find(id_of(call->groups[i][j].command));
                leases[i][j] = found && *found ? (*found)->policy.lease : std::min(leases[i][j], lease_careful);
            }
        }
        const std::lock_guard lock(call->mutex);
        if (!call->done) return;
        call->leases = std::move(leases);
        finish(call);
    }

    Said look(const Operation& operation) {
        const Asked asked{.command = Renew{{operation.id(), {}, {}}}, .key = operation.key.text()};
        const auto record = store.find(operation.id());
        if (!record) return said(record.failure(), asked);
        if (!*record) return said(Problem::operation_absent, {.key = asked.key});
        const auto now = store.now();
        if (!now) return said(now.failure(), asked);
        return found(**record, operation, *now);
    }

    const std::function<void(const Resolution&)> resolved_;
    boost::asio::thread_pool lookups_{lookups_max};
};

LedgerApi::LedgerApi(Committer& committer, const LedgerApiOptions& options)
    : parts_(std::make_unique<Parts>(committer, options)) {}
LedgerApi::~LedgerApi() = default;

bool LedgerApi::serves(std::string_view path) const { return path.starts_with(prefix) || path == "/v1"; }

std::variant<std::size_t, Reply> LedgerApi::admit(const http::RequestHead& head) const {
    const Page page = page_of(head.target.path);
    if (page != Page::openapi && parts_->caller_of(head) == nullptr) return unauthenticated();
    const bool reads = head.method == http::Method::get || head.method == http::Method::head;
    switch (page) {
        case Page::none:
            return reply_of(
                said(Problem::no_route, {.detail = "here are claim, renew, checkpoint, settle, release, "
                                                   "abandon, resolve, batch, operations and openapi.yaml"}));
        case Page::openapi:
        case Page::operations:
            if (!reads) return not_allowed("GET");
            return std::size_t{0};
        case Page::command:
        case Page::batch:
            if (head.method != http::Method::post) return not_allowed("POST");
            return parts_->body_bytes_max;
    }
    return unauthenticated();
}

std::unique_ptr<http::Pending> LedgerApi::answer(const http::RequestHead& head, std::string body, Done done) {
    const std::string_view path = head.target.path;
    const Page page = page_of(path);
    if (page == Page::openapi) {
        done([] { return Reply{.type = "application/yaml", .body = openapi_document}; });
        return std::make_unique<PendingNothing>();
    }
    const Caller* const caller = parts_->caller_of(head);
    if (caller == nullptr) {
        done([] { return unauthenticated(); });
        return std::make_unique<PendingNothing>();
    }
    if (page == Page::operations) {
        auto asked = read_find(head.target.query, *caller);
        if (auto* refused = std::get_if<Refused>(&asked))
            return parts_->at_once(std::move(done), "find", said(*refused));
        return parts_->find(std::get<Operation>(std::move(asked)), std::move(done));
    }
    if (page == Page::batch) {
        auto asked = read_batch(body, *caller);
        if (auto* refused = std::get_if<Refused>(&asked))
            return parts_->at_once(std::move(done), "batch", said(*refused));
        return parts_->submit(std::get<Groups>(std::move(asked)), false, std::move(done));
    }
    const std::string_view name = path.substr(prefix.size());
    auto asked = read_command(name, body, *caller);
    if (auto* refused = std::get_if<Refused>(&asked)) return parts_->at_once(std::move(done), name, said(*refused));
    Groups groups(1);
    groups.front().push_back(std::get<Asked>(std::move(asked)));
    return parts_->submit(std::move(groups), true, std::move(done));
}

std::chrono::milliseconds LedgerApi::within() const {
    return std::chrono::ceil<std::chrono::milliseconds>(parts_->timeout);
}

std::string LedgerApi::metrics() const { return parts_->counts.text(); }

}  // namespace semel::api
