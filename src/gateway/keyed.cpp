#include "gateway/keyed.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "gateway/points.hpp"
#include "ledger/key_header.hpp"
#include "semel/fingerprint.hpp"
#include "semel/keys.hpp"

namespace semel::gateway {

using http::Framing;
using http::Problem;
using http::ProblemDetails;

namespace {

constexpr Duration poll_first = milliseconds{10};
constexpr Duration poll_max = milliseconds{200};
constexpr std::size_t correlation_bytes_max = 128;
constexpr Duration lease_min = seconds{1};                // of a route: config_reader
constexpr milliseconds retry_soon{1000};                  // what is told where nobody knows when
constexpr std::size_t replay_auth_bytes_max = 64 * 1024;  // more than this of its answer is not read

double seconds_since(SteadyTime since) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

/// An answer that has no end of its own: it is passed on as it comes, and never stored.
bool is_stream(const http::ResponseHead& head) {
    const auto type = head.fields.value("Content-Type");
    return type && http::name_starts_with(*type, "text/event-stream");
}

bool is_correlation(std::string_view text) {
    return !text.empty() && text.size() <= correlation_bytes_max &&
           std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string random_hex(Random& random, std::size_t bytes) {
    std::string text(bytes, '\0');
    random.fill({reinterpret_cast<unsigned char*>(text.data()), text.size()});
    return to_hex(text);
}

milliseconds to_milliseconds(Duration duration) { return std::chrono::ceil<milliseconds>(duration); }

/// What the ledger said of an operation's end.
enum class Heard : std::uint8_t {
    no_answer,       ///< in time; it may still be done
    done,            ///< settled or released, as it was told
    unknown,         ///< its outcome is not known, as it was told or because of doubt (I11)
    settled_before,  ///< by somebody else, with another outcome
    fenced,          ///< somebody else holds it now
};

Heard heard(const Result<HolderAnswer>& told) {
    if (!told) return Heard::no_answer;
    return std::visit(
        match{[](const Ok& ok) { return ok.state == State::unknown ? Heard::unknown : Heard::done; },
              [](const Settled&) { return Heard::settled_before; }, [](const Fenced&) { return Heard::fenced; },
              [](const TooEarly&) {
                  SEMEL_ASSERT(false, "only a person's resolve is told that it is too early");
                  return Heard::no_answer;
              }},
        *told);
}

}  // namespace

KeyedRequest::KeyedRequest(Session& session, Worker& worker, std::shared_ptr<const LocalSite> local,
                           const RouteState& state)
    : session_(session), worker_(worker), local_(std::move(local)), state_(state) {}

Task<bool> KeyedRequest::run() {
    if (auto answered = co_await prepare_operation()) co_return *answered;
    reach(Point::before_claim);
    std::optional<ClaimAnswer> known = answer_from_memory();
    if (known) co_return co_await answer_with(std::move(*known));
    Result<ClaimAnswer> answer = co_await claim();
    if (!answer) {
        Failure failure = std::move(answer).failure();
        co_return co_await store_failed(std::move(failure));
    }
    ClaimAnswer told = std::move(*answer);
    co_return co_await answer_with(std::move(told));
}

/// No coroutine itself: the lambdas of a visit may not stand inside of a co_await on this compiler.
Task<bool> KeyedRequest::answer_with(ClaimAnswer answer) {
    return std::visit([this](auto& each) { return answer_for(std::move(each)); }, answer);
}

// ---- before the claim ------------------------------------------------------------------------------------------

Task<bool> KeyedRequest::refuse(Problem problem, std::string detail) {
    if (state_.observe) {
        state_.metrics->observe(Answered::refused);
        co_return co_await session_.pass(local_, state_);
    }
    state_.metrics->count(Answered::refused);
    const ProblemDetails details = details_of(detail);
    co_return co_await session_.answer(problem, details);
}

/// With the key, once it is known.
ProblemDetails KeyedRequest::details_of(std::string_view detail) const {
    ProblemDetails details;
    details.detail = detail;
    if (operation_) details.key = operation_->key.text();
    return details;
}

Task<std::optional<bool>> KeyedRequest::prepare_operation() {
    const http::RequestHead& head = session_.head();
    if (head.upgrade && !state_.observe) {
        session_.must_close_ = true;
        co_return co_await session_.answer(Problem::upgrade_refused);
    }
    const auto read = co_await session_.read_body(route().request_bytes_max, state_.observe,
                                                  state_.observe ? Duration{0} : limits().body_timeout);
    if (read == Session::Body::partial) {
        state_.metrics->observe(Answered::refused);
        co_return co_await session_.pass(local_, state_);
    }
    if (read == Session::Body::answered) {
        state_.metrics->count(Answered::refused);
        co_return false;
    }
    session_.must_close_ = false;
    const std::string& body = session_.body_;

    if (state_.signature) {
        if (const auto fault = state_.signature->fault(head.fields, body, worker_.shared.clock.wall())) {
            log(Log::Level::warning, "signature_refused", 0, *fault);
            co_return co_await refuse(Problem::signature_invalid, std::string(*fault));
        }
    }
    JsonBody json(body);
    KeyFound found = find_key(route(), head.fields, json);
    if (const auto* invalid = std::get_if<KeyInvalid>(&found))
        co_return co_await refuse(Problem::key_invalid, invalid->reason);
    if (std::holds_alternative<KeyMissing>(found)) {
        if (route().key_for(head.method_text) == KeyUse::optional) co_return co_await session_.pass(local_, state_);
        co_return co_await refuse(Problem::key_missing, fmt::format("send one in {}", key_places(route())));
    }
    Key key = std::get<Key>(std::move(found));
    key_in_header_ = head.fields.find("Idempotency-Key") != nullptr;

    std::string tenant;
    if (route().webhook) {
        tenant = route().webhook->provider;
    } else {
        TenantAnswer whose = site().tenants().read(head.fields, session_.peer(), session_.certificate_subject());
        if (const auto* missing = std::get_if<TenantMissing>(&whose))
            co_return co_await refuse(Problem::tenant_missing, std::string(missing->reason));
        if (const auto* wrong = std::get_if<TenantRefused>(&whose))
            co_return co_await refuse(Problem::tenant_missing, std::string(wrong->reason));
        tenant = std::get<std::string>(std::move(whose));
    }
    auto scope = Scope::make(std::move(tenant), route().name, route().generation);
    if (!scope) co_return co_await refuse(Problem::tenant_missing, "the tenant can not be used");
    operation_.emplace(Operation{std::move(*scope), std::move(key)});
    id_ = operation_->id();

    if (route().webhook) {
        fingerprint_ = webhook_fingerprint(*route().webhook, operation_->key, json);
    } else {
        const Request request{.method = head.method_text,
                              .path = head.target.path,
                              .query = head.target.query,
                              .content_type = head.fields.value("Content-Type").value_or(""),
                              .if_match = head.fields.value("If-Match").value_or(""),
                              .body = body};
        const RequestPrint print = print_of(request, route().fingerprint);
        fingerprint_ = print.fingerprint;
        keeps_request_ = keeps_requests(route(), print.of_every_byte) && !state_.observe;
    }
    const auto correlation = head.fields.value(site().config().correlation_header);
    correlation_ = correlation && is_correlation(*correlation) ? std::string(*correlation) : mint_uuid4().text();
    co_return std::nullopt;
}

/// Replay or Mismatch, of what is surely settled; everything else is the ledger's to say.
std::optional<ClaimAnswer> KeyedRequest::answer_from_memory() {
    if (limits().hot_bytes_max == 0) return std::nullopt;
    const HotEntry* const hot = worker_.hot.find(id_, std::chrono::steady_clock::now());
    if (hot == nullptr || hot->fingerprint.version != fingerprint_.version) return std::nullopt;
    state_.metrics->hot->Increment();
    hot_ = true;
    if (hot->fingerprint != fingerprint_) return Mismatch{};
    return Replay{hot->outcome, hot->settled_at};
}

void KeyedRequest::remember(Outcome outcome, TimePoint settled_at) {
    if (limits().hot_bytes_max == 0 || hot_) return;
    HotEntry entry{.fingerprint = fingerprint_, .outcome = std::move(outcome), .settled_at = settled_at};
    const Duration age = std::max(Duration{0}, worker_.shared.clock.wall() - settled_at);
    worker_.hot.put(id_, std::move(entry), route().policy.retention, age, std::chrono::steady_clock::now(),
                    limits().hot_bytes_max);
}

Task<Result<ClaimAnswer>> KeyedRequest::claim() {
    std::string to_keep;
    if (keeps_request_) to_keep = site().requests().encode(route(), id_, session_.head(), session_.body_);
    Duration poll = poll_first;
    std::optional<SteadyTime> until;
    if (route().busy_wait && !state_.observe) until = std::chrono::steady_clock::now() + *route().busy_wait;
    bool waits = false;
    while (true) {
        Claim command{.operation = *operation_,
                      .fingerprint = fingerprint_,
                      .policy = route().policy,
                      .key_time = route().format == KeyFormat::uuidv7 ? operation_->key.time() : std::nullopt,
                      .correlation = correlation_,
                      .request = to_keep};
        claim_sent_ = std::chrono::steady_clock::now();
        Result<ClaimAnswer> answer = co_await worker_.calls.claim(std::move(command), limits().claim_timeout);
        worker_.shared.metrics.claim_seconds->Observe(seconds_since(claim_sent_));
        const bool busy = answer && std::holds_alternative<Busy>(*answer);
        const bool may_wait = busy && until && std::chrono::steady_clock::now() < *until && !worker_.draining() &&
                              (waits || worker_.waiting < limits().waiting_max);
        if (!may_wait) {
            if (waits) --worker_.waiting;
            co_return answer;
        }
        if (!waits) ++worker_.waiting;
        waits = true;
        SteadyTimer timer(worker_.context().get_executor(), poll);
        co_await timer.async_wait(as_tuple);
        poll = std::min(poll * 2, poll_max);
    }
}

Task<bool> KeyedRequest::pass_unheld(Answered would_be) {
    state_.metrics->observe(would_be);
    log(Log::Level::info, "observed", 0, name(would_be));
    co_return co_await session_.pass(local_, state_);
}

Task<bool> KeyedRequest::store_failed(Failure failure) {
    if (failure.code == Code::invalid) co_return co_await refuse(Problem::key_invalid, failure.message);
    log(Log::Level::error, "store_failed", 0, failure.message);
    if (state_.observe) co_return co_await pass_unheld(Answered::store_failed);
    if (route().on_store_failure == OnStoreFailure::open && failure.code != Code::corrupt) {
        state_.metrics->count(Answered::store_failed);
        state_.metrics->open_anyway->Increment();
        log(Log::Level::warning, "forwarded_without_ledger");
        co_return co_await session_.pass(local_, state_);
    }
    if (failure.code == Code::corrupt) co_return co_await stored_unreadable(std::move(failure));
    state_.metrics->count(Answered::store_failed);
    co_return co_await store_unavailable();
}

Task<bool> KeyedRequest::store_unavailable() {
    ProblemDetails details = details_of({});
    details.retry_after = retry_soon;
    co_return co_await session_.answer(Problem::store_unavailable, details);
}

/// The claim is ours and must not be used: it is given back, and whatever the route says of a failing store, nothing is sent.
Task<bool> KeyedRequest::not_begun(std::string_view why) {
    log(Log::Level::warning, "not_begun", 503, why);
    co_await release_unsent();
    state_.metrics->count(Answered::store_failed);
    co_return co_await store_unavailable();
}

/// What is stored cannot be answered with. It was done before, so whatever the route says of a failing store, it is not sent.
Task<bool> KeyedRequest::stored_unreadable(Failure failure) {
    log(Log::Level::error, "stored_unreadable", 0, failure.message);
    state_.metrics->count(Answered::store_failed);
    ProblemDetails details = details_of(failure.code == Code::corrupt
                                            ? "what is stored under this key is damaged; nothing was sent"
                                            : "what is stored under this key can not be read (seal); nothing was sent");
    details.retryable = false;
    co_return co_await session_.answer(Problem::store_unavailable, details);
}

// ---- answers of the ledger -------------------------------------------------------------------------------------

Task<bool> KeyedRequest::answer_for(Mismatch) {
    if (state_.observe) co_return co_await pass_unheld(Answered::mismatch);
    state_.metrics->count(Answered::mismatch);
    log(Log::Level::info, "mismatch", 422);
    const ProblemDetails details = details_of(
        "method, path, query, content type, If-Match or body differ from those of the first request with this key: a new "
        "intent needs a new key");
    co_return co_await session_.answer(Problem::key_reused, details);
}

Task<bool> KeyedRequest::answer_for(Busy busy) {
    if (state_.observe) co_return co_await pass_unheld(Answered::in_progress);
    state_.metrics->count(Answered::in_progress);
    state_.metrics->absorbed->Increment();
    log(Log::Level::info, "busy", 409);
    // The lease's end says when a crash would be noticed, not when the answer will be there: that is usually soon.
    ProblemDetails details = details_of("send the same request again to get its answer");
    details.retry_after = std::min(to_milliseconds(busy.retry_after), retry_soon);
    co_return co_await session_.answer(Problem::in_progress, details);
}

Task<bool> KeyedRequest::answer_for(Unknown unknown) {
    if (state_.observe) co_return co_await pass_unheld(Answered::unknown);
    state_.metrics->count(Answered::unknown);
    state_.metrics->absorbed->Increment();
    log(Log::Level::warning, "unknown", 409);
    const std::string detail =
        fmt::format("since {} nobody knows whether it was executed; it is not sent again: a person has to resolve it",
                    to_text(unknown.since));
    const ProblemDetails details = details_of(detail);
    co_return co_await session_.answer(Problem::outcome_unknown, details);
}

Task<bool> KeyedRequest::answer_for(Expired) {
    if (state_.observe) co_return co_await pass_unheld(Answered::expired);
    state_.metrics->count(Answered::expired);
    log(Log::Level::info, "expired", 410);
    const ProblemDetails details = details_of("its own time lies before everything that is still remembered");
    co_return co_await session_.answer(Problem::key_expired, details);
}

std::string KeyedRequest::expires_text(TimePoint settled_at) const {
    if (!route().policy.retention.identity) return "never";
    TimePoint from = settled_at;
    if (const auto at = operation_->key.time(); at && route().format == KeyFormat::uuidv7) from = std::max(from, *at);
    return to_text(later(from, *route().policy.retention.identity));
}

Task<bool> KeyedRequest::answer_for(Replay replay) {
    if (state_.observe) co_return co_await pass_unheld(Answered::replayed);
    state_.metrics->absorbed->Increment();
    MayReplay allowed = MayReplay::yes;
    if (!route().replay_auth.empty()) allowed = co_await may_replay();
    if (allowed == MayReplay::nobody_knows) {
        state_.metrics->count(Answered::upstream_failed);
        ProblemDetails details = details_of(
            "whether the stored answer may be shown could not be asked (replay_auth); nothing was sent again");
        details.retry_after = retry_soon;
        details.retryable = true;
        co_return co_await session_.answer(Problem::upstream_failed, details);
    }
    if (allowed == MayReplay::no) {
        state_.metrics->count(Answered::refused);
        log(Log::Level::warning, "replay_forbidden", 403);
        const ProblemDetails details = details_of({});
        co_return co_await session_.answer(Problem::replay_forbidden, details);
    }
    if (!replay.outcome.kept) {
        state_.metrics->count(Answered::not_retained);
        log(Log::Level::info, "not_retained", 409);
        co_return co_await answer_not_retained(replay.outcome.status);
    }
    const auto stored = site().codec().decode(id_, replay.outcome);
    if (!stored) {
        Failure failure = stored.failure();
        co_return co_await stored_unreadable(std::move(failure));
    }
    state_.metrics->count(Answered::replayed);
    log(Log::Level::info, "replayed", stored->status);
    remember(replay.outcome, replay.settled_at);
    co_return co_await answer_with_stored(*stored, true, replay.settled_at);
}

Task<bool> KeyedRequest::answer_not_retained(int status) {
    ProblemDetails details = details_of("it was done; only its status is kept");
    if (status != 0) details.outcome_status = status;
    co_return co_await session_.answer(Problem::outcome_not_retained, details);
}

Task<bool> KeyedRequest::answer_with_stored(const StoredResponse& stored, bool replayed, TimePoint settled_at) {
    std::string out;
    out.reserve(512);
    http::HeadWriter writer(out);
    writer.status_line(stored.status, stored.reason);
    for (const http::Field& field : stored.fields) writer.field(field.name, field.value);
    if (replayed) writer.field("Idempotent-Replayed", "true");
    writer.field("Semel-Key-Expires", expires_text(settled_at));
    const bool head_only = session_.head().method == http::Method::head;
    const bool bodiless = head_only || stored.status == 204 || stored.status == 304;
    if (writer.end(bodiless ? Framing::none() : Framing::of_length(stored.body.size()), session_.persistence()) !=
        http::Fault::none) {
        Failure failure{Code::corrupt, "the stored response can not be written"};
        co_return co_await stored_unreadable(std::move(failure));
    }
    co_await session_.write(out, head_only ? std::string_view() : stored.body);
    co_return session_.goes_on();
}

/// Asks the upstream whether this caller may see the stored answer.
Task<KeyedRequest::MayReplay> KeyedRequest::may_replay() {
    std::string request;
    http::HeadWriter writer(request);
    const http::RequestHead& head = session_.head();
    writer.request_line("GET", route().replay_auth);
    writer.field("Host", head.host.empty() ? std::string_view("localhost") : head.host);
    writer.forward(head.fields, head.connection, [&](const http::Field& field) {
        return session_.keeps(field, site()) && !http::name_starts_with(field.name, "Content-");
    });
    writer.field("Semel-Original-Method", head.method_text);
    writer.field("Semel-Original-Path", head.target.path);
    session_.write_forwarded(writer);
    if (writer.end(Framing::none()) != http::Fault::none) co_return MayReplay::no;
    bool stale = false;
    const MayReplay first = co_await ask_replay_auth(request, stale);
    if (!stale) co_return first;
    co_return co_await ask_replay_auth(request, stale);  // the connection was closed before it was seen
}

Task<KeyedRequest::MayReplay> KeyedRequest::ask_replay_auth(const std::string& request, bool& stale) {
    const auto& pool = local_->pools[state_.upstream];
    Exchange exchange(pool, http::Method::get);
    Ended ended = co_await exchange.connect();
    if (ended == Ended::well) ended = co_await exchange.send(request, std::string_view());
    if (ended == Ended::well) ended = co_await exchange.read_head(pool->config().response_timeout);
    stale = ended == Ended::failed && exchange.reused() && !exchange.answering();
    if (ended != Ended::well) co_return MayReplay::nobody_knows;
    const bool allowed = exchange.head().status / 100 == 2;
    const bool broken = exchange.head().status >= 500;
    std::string ignored;
    if (co_await exchange.read_body(ignored, replay_auth_bytes_max) == Ended::well) exchange.finish();
    co_return allowed ? MayReplay::yes : broken ? MayReplay::nobody_knows : MayReplay::no;
}

// ---- with the claim --------------------------------------------------------------------------------------------

Task<bool> KeyedRequest::answer_for(Claimed claimed) {
    // I12: a lease that was taken over has the length its first claim gave it, which this file may have changed since: it is
    // renewed as if it were the shortest there is.
    const Duration lease =
        claimed.tries > 1 ? std::min<Duration>(lease_min, route().policy.lease) : route().policy.lease;
    held_ = worker_.calls.hold(claimed, id_, lease, claim_sent_);
    doubt_ = claimed.doubt;
    sent_first_ = std::move(claimed.request);
    log(Log::Level::info, claimed.tries > 1 ? "taken_over" : "claimed");
    reach(Point::after_claim);
    const bool go_on = co_await perform(claimed);
    if (held_) worker_.calls.let_go(held_);
    co_return go_on;
}

/// Nothing was sent: the next try may have it at once.
Task<> KeyedRequest::release_unsent() {
    Command command = Release{held_->holder};
    const Result<HolderAnswer> told = co_await worker_.calls.tell(std::move(command), limits().settle_answer);
    if (!told) tell_later(Release{held_->holder});
}

/// Under doubt the service is sent what it was sent first. Empty: it can be; else why not, for the client.
std::optional<std::string_view> KeyedRequest::take_up_first() {
    if (sent_first_.empty() || state_.observe) return std::nullopt;
    auto first = site().requests().decode(id_, sent_first_);
    if (!first) {
        log(Log::Level::error, "stored_unreadable", 0, first.failure().message);
        return "it may have been executed, and what was sent first can not be read (seal); nothing was sent: a person "
               "has to resolve it";
    }
    if (!first->body && first->hash != view(sha256(session_.body_)))
        return "it may have been executed, and these are other bytes than those that were sent first, of which only a "
               "hash is kept; nothing was sent: send the first bytes again, or a person has to resolve it";
    if (first->body) first_ = std::move(*first);
    return std::nullopt;
}

/// The claim is ours, and what would have to be sent is not there. I11: given back, it is as unknown as it was.
Task<bool> KeyedRequest::not_sent_again(std::string_view why) {
    co_await release_unsent();
    state_.metrics->count(Answered::unknown);
    state_.metrics->absorbed->Increment();
    log(Log::Level::warning, "unknown", 409, why);
    const ProblemDetails details = details_of(why);
    co_return co_await session_.answer(Problem::outcome_unknown, details);
}

Task<bool> KeyedRequest::perform(const Claimed& claimed) {
    if (const auto why = take_up_first()) co_return co_await not_sent_again(*why);
    // After the claim: a duplicate of something known is no new key, and is answered whatever the quota.
    auto admitted = worker_.shared.quotas.admit(operation_->scope.tenant(), route().name, route().quota);
    if (auto* ticket = std::get_if<Quotas::Ticket>(&admitted); ticket != nullptr && claimed.tries > 1)
        ticket->not_new();
    if (const auto* over = std::get_if<Quotas::Refused>(&admitted); over != nullptr && !state_.observe) {
        const milliseconds retry_after = to_milliseconds(over->retry_after);
        co_await release_unsent();
        state_.metrics->count(Answered::quota);
        log(Log::Level::warning, "quota", 429);
        ProblemDetails details = details_of("too many new keys or open operations (quota)");
        details.retry_after = retry_after;
        co_return co_await session_.answer(Problem::quota, details);
    }
    if (worker_.ending()) co_return co_await not_begun("the gateway is stopping");
    const std::string request = upstream_request(claimed);
    if (request.empty()) {
        co_await release_unsent();
        co_return co_await refuse(Problem::request_malformed, "the request can not be forwarded");
    }
    const auto& pool = local_->pools[state_.upstream];
    Exchange exchange(pool, session_.head().method);
    const SteadyTime began = std::chrono::steady_clock::now();
    Ended ended = co_await exchange.connect();
    // I4: by our own steady clock, and right before the first byte.
    if (ended == Ended::well && (!held_->may_begin() || worker_.ending())) {
        exchange.give_back();
        co_return co_await not_begun("the lease may be over before anything was sent");
    }
    const std::string_view to_send = first_ ? *first_->body : std::string_view(session_.body_);
    if (ended == Ended::well) ended = co_await exchange.send(request, to_send);
    reach(Point::after_forwarding);
    if (ended == Ended::well) ended = co_await exchange.read_head(pool->config().response_timeout);
    if (ended == Ended::well && is_stream(exchange.head())) co_return co_await relay_large(exchange);
    if (ended == Ended::well) ended = co_await exchange.read_body(body_, route().response_bytes_max);
    state_.metrics->upstream_seconds->Observe(seconds_since(began));
    if (ended == Ended::well && !exchange.complete()) co_return co_await relay_large(exchange);
    reach(Point::after_answer);
    if (ended == Ended::well) exchange.finish();
    co_return co_await judge(exchange, ended);
}

std::string KeyedRequest::upstream_request(const Claimed& claimed) {
    const http::RequestHead& head = session_.head();
    const std::string& correlation_header = site().config().correlation_header;
    std::string out;
    out.reserve(1024);
    http::HeadWriter writer(out);
    writer.request_line(head.method_text, http::origin_form(head.target));
    writer.field("Host", head.host.empty() ? std::string_view("localhost") : head.host);
    writer.forward(head.fields, head.connection, [&](const http::Field& field) {
        return session_.keeps(field, site()) && !http::same_variable(field.name, correlation_header) &&
               !(first_ && describes_body(field.name));
    });
    if (first_)
        for (const http::Field& field : first_->fields) writer.field(field.name, field.value);
    session_.write_forwarded(writer);
    if (!key_in_header_) writer.field("Idempotency-Key", key_to_header(operation_->key));
    writer.field(correlation_header, correlation_);
    if (head.fields.find("traceparent") == nullptr)
        writer.field("traceparent", fmt::format("00-{}-{}-00", random_hex(worker_.shared.random, 16),
                                                random_hex(worker_.shared.random, 8)));
    writer.field("Semel-Operation", to_hex(id_.bytes));
    writer.field("Semel-Scope", operation_->scope.text());
    writer.field("Semel-Key", operation_->key.text());
    writer.field("Semel-Token", claimed.token.value);
    writer.field("Semel-Tries", claimed.tries);
    const Framing framing = first_                                     ? Framing::of_length(first_->body->size())
                            : head.framing.kind == Framing::Kind::none ? Framing::none()
                                                                       : Framing::of_length(session_.body_.size());
    if (writer.end(framing) != http::Fault::none) out.clear();
    return out;
}

Task<bool> KeyedRequest::judge(Exchange& exchange, Ended ended) {
    const UpstreamEnd end = ended == Ended::well        ? UpstreamEnd::answered(exchange.head().status)
                            : ended == Ended::not_sent  ? UpstreamEnd::not_sent()
                            : ended == Ended::timed_out ? UpstreamEnd::timeout()
                                                        : UpstreamEnd::broken();
    const Verdict what = verdict(route(), doubt_, end);
    switch (what.what) {
        case Verdict::What::settle: co_return co_await settle(exchange, what.conclusive);
        case Verdict::What::release: co_return co_await release(exchange, ended);
        case Verdict::What::abandon: break;
    }
    co_return co_await abandon(exchange, ended);
}

Task<bool> KeyedRequest::settle(Exchange& exchange, bool conclusive) {
    const int status = exchange.head().status;
    Outcome outcome = site().codec().encode(route(), id_, exchange.head(), body_);
    Command command = Settle{held_->holder, outcome, conclusive};
    const SteadyTime sent = std::chrono::steady_clock::now();
    Result<HolderAnswer> told = co_await worker_.calls.tell(std::move(command), limits().settle_answer);
    worker_.shared.metrics.settle_seconds->Observe(seconds_since(sent));
    if (!told) {
        // The effect has happened: the client hears of it, and the ledger as soon as it can.
        log(Log::Level::error, "settle_failed", status, told.failure().message);
        tell_later(Settle{held_->holder, std::move(outcome), conclusive});
        state_.metrics->count(Answered::performed);
        co_return co_await answer_with_response(exchange.head(), body_, false);
    }
    reach(Point::after_settle);
    switch (heard(told)) {
        case Heard::no_answer:  // handled above
        case Heard::done: break;
        case Heard::unknown: co_return co_await inconclusive(exchange);
        case Heard::settled_before: co_return co_await settled_by_application(std::move(*told), exchange, Ended::well);
        case Heard::fenced: co_return co_await superseded(exchange);
    }
    state_.metrics->count(Answered::performed);
    log(Log::Level::info, "settled", status);
    remember(std::move(outcome), worker_.shared.clock.wall());
    co_return co_await answer_with_response(exchange.head(), body_, true);
}

/// I11: this answer does not say what the earlier try came to.
Task<bool> KeyedRequest::inconclusive(Exchange& exchange) {
    state_.metrics->unknown_outcomes->Increment();
    log(Log::Level::warning, "inconclusive", exchange.head().status);
    if (state_.observe) co_return co_await answer_with_response(exchange.head(), body_, false);
    state_.metrics->count(Answered::unknown);
    ProblemDetails details = details_of("the upstream's answer does not say what an earlier try came to (conclusive)");
    details.retryable = repeatable();
    co_return co_await session_.answer(Problem::outcome_unknown, details);
}

/// Somebody else holds it now, and the truth will be what they settle.
Task<bool> KeyedRequest::superseded(Exchange& exchange) {
    state_.metrics->lease_losses->Increment();
    log(Log::Level::error, "fenced", exchange.head().status);
    if (state_.observe) co_return co_await answer_with_response(exchange.head(), body_, false);
    state_.metrics->count(Answered::in_progress);
    ProblemDetails details = details_of("another holder took the operation over; send the same request again");
    details.retry_after = retry_soon;
    co_return co_await session_.answer(Problem::in_progress, details);
}

/// The application settled it first, in its own transaction: that is what everybody is told.
Task<bool> KeyedRequest::settled_by_application(HolderAnswer told, Exchange& exchange, Ended ended) {
    Outcome& outcome = std::get<Settled>(told).outcome;
    state_.metrics->count(Answered::performed);
    log(Log::Level::info, "settled_by_application", outcome.status);
    if (!outcome.kept) {
        if (ended == Ended::well && (outcome.status == 0 || outcome.status == exchange.head().status))
            co_return co_await answer_with_response(exchange.head(), body_, true);
        co_return co_await answer_not_retained(outcome.status);
    }
    const auto stored = site().codec().decode(id_, outcome);
    if (!stored) {
        Failure failure = stored.failure();
        co_return co_await stored_unreadable(std::move(failure));
    }
    co_return co_await answer_with_stored(*stored, false, worker_.shared.clock.wall());
}

Task<bool> KeyedRequest::release(Exchange& exchange, Ended ended) {
    Command command = Release{held_->holder};
    Result<HolderAnswer> told = co_await worker_.calls.tell(std::move(command), limits().settle_answer);
    const Heard what = heard(told);
    if (what == Heard::settled_before) co_return co_await settled_by_application(std::move(*told), exchange, ended);
    if (what == Heard::no_answer) tell_later(Release{held_->holder});
    if (what == Heard::fenced) state_.metrics->lease_losses->Increment();
    const bool still_unknown = what == Heard::unknown;
    log(what == Heard::done ? Log::Level::info : Log::Level::warning,
        what == Heard::fenced ? "fenced"
        : still_unknown       ? "unknown"
                              : "released",
        ended == Ended::well ? exchange.head().status : 0, told ? exchange.why() : told.failure().message);
    if (ended == Ended::well) {
        state_.metrics->count(Answered::released);
        co_return co_await answer_with_response(exchange.head(), body_, false);
    }
    state_.metrics->count(still_unknown ? Answered::unknown : Answered::upstream_failed);
    if (still_unknown) {
        ProblemDetails details =
            details_of("the upstream can not be reached, and an earlier try may have been executed");
        details.retryable = repeatable();
        co_return co_await session_.answer(Problem::outcome_unknown, details);
    }
    // Without the ledger's word the next try may meet the old lease, and then be told so. An event of a webhook is released
    // though it was sent: its handler can take it twice.
    const Problem problem = ended == Ended::not_sent    ? Problem::upstream_unreachable
                            : ended == Ended::timed_out ? Problem::upstream_timeout
                                                        : Problem::upstream_failed;
    ProblemDetails details = details_of({});
    details.retry_after = retry_soon;
    details.retryable = true;
    co_return co_await session_.answer(problem, details);
}

Task<bool> KeyedRequest::abandon(Exchange& exchange, Ended ended) {
    Command command = Abandon{held_->holder};
    Result<HolderAnswer> told = co_await worker_.calls.tell(std::move(command), limits().settle_answer);
    const Heard what = heard(told);
    if (what == Heard::settled_before) co_return co_await settled_by_application(std::move(*told), exchange, ended);
    if (what == Heard::no_answer) tell_later(Abandon{held_->holder});
    if (what == Heard::fenced) state_.metrics->lease_losses->Increment();
    if (state_.observe && ended == Ended::well) co_return co_await answer_with_response(exchange.head(), body_, false);
    state_.metrics->count(Answered::unknown);
    state_.metrics->unknown_outcomes->Increment();
    const int status = ended == Ended::well ? exchange.head().status : 0;
    log(Log::Level::warning, "abandoned", status, exchange.why());
    const std::string detail =
        ended == Ended::well
            ? fmt::format("the upstream answered {}: whether the operation was executed is not known", status)
            : std::string("whether the operation was executed is not known");
    ProblemDetails details = details_of(detail);
    details.retryable = repeatable();
    co_return co_await session_.answer(ended == Ended::timed_out ? Problem::upstream_timeout : Problem::upstream_failed,
                                       details);
}

bool KeyedRequest::repeatable() const {
    return route().policy.on_unknown == OnUnknown::retry || route().policy.on_unknown == OnUnknown::joined;
}

/// The store has failed after the effect: it is told in the background, within limits.
void KeyedRequest::tell_later(Command command) {
    if (worker_.tell_later(held_, std::move(command), limits(), operation_->text())) {
        held_.reset();
        return;
    }
    log(Log::Level::error, "settle_given_up", 0, "too many wait (limits.unsettled_max, limits.unsettled_bytes_max)");
}

// ---- answering -------------------------------------------------------------------------------------------------

Task<bool> KeyedRequest::answer_with_response(const http::ResponseHead& head, std::string_view body, bool stored) {
    std::string out;
    out.reserve(512);
    http::HeadWriter writer(out);
    writer.status_line(head.status, head.reason).forward(head.fields, head.connection, [](const http::Field& field) {
        return !http::variable_starts_with(field.name, "Semel-");
    });
    // I10: said only of what is durable.
    if (stored) writer.field("Semel-Key-Expires", expires_text(worker_.shared.clock.wall()));
    const bool bodiless = head.framing.kind == Framing::Kind::none;
    const Framing framing = !bodiless             ? Framing::of_length(body.size())
                            : head.content_length ? Framing::of_length(*head.content_length)
                                                  : Framing::none();
    if (writer.end(framing, session_.persistence()) != http::Fault::none) co_return co_await answer_not_forwarded();
    co_await session_.write(out, body);
    co_return session_.goes_on();
}

Task<bool> KeyedRequest::answer_not_forwarded() {
    const ProblemDetails details = details_of("its answer can not be forwarded");
    co_return co_await session_.answer(Problem::upstream_failed, details);
}

/// An answer that is too large to be stored, or has no end of its own. Its status says what became of the operation: the
/// ledger is told now, with a tombstone (I8), and the answer is passed on as it comes, however long that takes.
Task<bool> KeyedRequest::relay_large(Exchange& exchange) {
    const http::ResponseHead& head = exchange.head();
    const Verdict what = verdict(route(), doubt_, UpstreamEnd::answered(head.status));
    const bool settles = what.what == Verdict::What::settle;
    Command command = Abandon{held_->holder};
    if (settles)
        command = Settle{held_->holder, Outcome::tombstone(head.status), what.conclusive};
    else if (what.what == Verdict::What::release)
        command = Release{held_->holder};
    Command again = command;
    const Result<HolderAnswer> told = co_await worker_.calls.tell(std::move(command), limits().settle_answer);
    const Heard ledger = heard(told);
    if (ledger == Heard::no_answer) tell_later(std::move(again));
    if (ledger == Heard::fenced) state_.metrics->lease_losses->Increment();
    const bool unknown = what.what == Verdict::What::abandon || ledger == Heard::unknown;
    state_.metrics->count(unknown ? Answered::unknown : settles ? Answered::performed : Answered::released);
    if (unknown) state_.metrics->unknown_outcomes->Increment();
    log(unknown ? Log::Level::warning : Log::Level::info,
        unknown   ? "unknown"
        : settles ? "settled_without_response"
                  : "released",
        head.status);
    if (held_) worker_.calls.let_go(held_);

    exchange.limit_each_read();
    const Framing framing = session_.framing_for_client(head.framing);
    const bool chunked = framing.kind == Framing::Kind::chunked;
    if (framing.kind == Framing::Kind::until_close) session_.must_close_ = true;
    std::string out;
    http::HeadWriter writer(out);
    writer.status_line(head.status, head.reason).forward(head.fields, head.connection, [](const http::Field& field) {
        return !http::variable_starts_with(field.name, "Semel-");
    });
    if (writer.end(framing, session_.persistence()) != http::Fault::none) co_return co_await answer_not_forwarded();
    std::string_view data = body_;
    while (true) {
        if (chunked)
            http::write_chunk(out, data);
        else
            out += data;
        const bool last = exchange.complete();
        if (chunked && last) out += http::last_chunk;
        if (!out.empty() && !co_await session_.write(out)) co_return false;
        if (last) break;
        out.clear();
        if (co_await exchange.next(data) != Ended::well) {
            session_.cut();  // half an answer: the client must not take it for a whole one
            co_return false;
        }
    }
    exchange.finish();
    co_return session_.goes_on();
}

void KeyedRequest::log(Log::Level level, std::string_view event, int status, std::string_view why) {
    if (!worker_.log.wants(level)) return;
    LogLine line(level, event);
    line.text("route", route().name);
    if (operation_) {
        line.text("tenant", operation_->scope.tenant());
        line.text("key", operation_->key.text());
        line.text("operation", to_hex(id_.bytes));
        line.text("correlation", correlation_);
    }
    if (held_) line.number("token", static_cast<std::int64_t>(held_->holder.token.value));
    if (status != 0) line.number("status", status);
    if (!why.empty()) line.text("why", why);
    worker_.log.write(std::move(line));
}

}  // namespace semel::gateway
