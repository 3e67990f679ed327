#include "verify/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <thread>

#include "http/fields.hpp"
#include "ledger/json_document.hpp"

namespace semel::verify {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds retry_pause_min{50};
constexpr milliseconds retry_pause_max{500};
constexpr milliseconds count_pause_min{10};
constexpr milliseconds count_pause_max{200};

constexpr std::array<std::string_view, 9> credential_headers{
    "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie",          "X-Api-Key",
    "Api-Key",       "X-Auth-Token",        "Apikey", "Authentication-Info",
};

std::optional<Header> key_header(const Subject& subject, KeySpelling spelling, const std::string& key) {
    switch (spelling) {
        case KeySpelling::bare: return Header{subject.key_header, key};
        case KeySpelling::quoted: return Header{subject.key_header, '"' + key + '"'};
        case KeySpelling::none: return std::nullopt;
    }
    return std::nullopt;
}

bool has(const std::vector<Header>& headers, std::string_view name) {
    return std::ranges::any_of(headers, [&](const Header& each) { return http::same_name(each.name, name); });
}

/// Seconds to wait, as the answer asks; a date is not understood and asks for a second.
std::optional<milliseconds> retry_after(const Response& response) {
    const auto value = response.value("Retry-After");
    if (!value) return std::nullopt;
    const auto seconds = whole_number(*value);
    return std::chrono::seconds(seconds ? std::clamp<std::int64_t>(*seconds, 0, 3600) : 1);
}

/// A problem document that says that the same request will not be answered otherwise.
bool says_final(const Response& response) {
    const auto document = JsonDocument::parse(response.body);
    const auto pointer = JsonPointer::parse("/retryable");
    if (!document || !pointer) return false;
    const auto found = document->find(*pointer);
    return found && document->node(*found).kind == JsonDocument::Kind::literal &&
           document->node(*found).text == "false";
}

}  // namespace

bool is_final(const Answer& answer, Conflict conflict) {
    if (!answer.response) return false;
    const Response& response = *answer.response;
    const bool asked = response.value("Retry-After").has_value();
    switch (response.status) {
        case 425:
        case 429: return false;
        case 409: return !asked && (conflict == Conflict::answer || says_final(response));
        case 503: return !asked;
        default: return true;
    }
}

std::string redacted(std::string_view head, const std::vector<std::string>& secret_headers) {
    const auto secret = [&](std::string_view name) {
        const auto same = [&](std::string_view other) { return http::same_name(name, other); };
        return std::ranges::any_of(credential_headers, same) || std::ranges::any_of(secret_headers, same);
    };
    std::string shown;
    bool hidden = false;  // whether the line before was; a folded line goes with it
    while (!head.empty()) {
        const std::size_t end = std::min(head.find('\n'), head.size() - 1) + 1;
        const std::string_view line = head.substr(0, end);
        head.remove_prefix(end);
        const std::size_t colon = line.find(':');
        if (line.starts_with(' ') || line.starts_with('\t')) {
            if (!hidden) shown += line;
            continue;
        }
        hidden = colon != std::string_view::npos && secret(http::trimmed(line.substr(0, colon)));
        if (hidden)
            shown.append(line.substr(0, colon)).append(": <redacted>\r\n");
        else
            shown += line;
    }
    return shown;
}

// ---- Probe ---------------------------------------------------------------------------------------------------------

Status Probe::reach() {
    const auto url = Url::parse(fill_in(subject_.url, make_intent(0, subject_.key_format)));
    if (!url) return url.failure();
    const auto connection = Connection::open(*url, tls_, deadline());
    if (!connection) return connection.failure();
    return Done{};
}

std::optional<std::string> Probe::body_of(const Intent& intent) const {
    if (!subject_.body) return std::nullopt;
    return fill_in(*subject_.body, intent);
}

std::optional<std::string> Probe::other_body_of(const Intent& intent) const {
    if (subject_.other_body) return fill_in(*subject_.other_body, intent);
    const auto body = body_of(intent);
    if (!body) return std::nullopt;
    const auto type =
        std::ranges::find_if(subject_.headers, [](const Header& h) { return http::same_name(h.name, "Content-Type"); });
    return another_body(*body, type == subject_.headers.end() ? "application/json" : type->value);
}

Result<Request> Probe::request_of(const Intent& intent, const Try& one) const {
    auto url = Url::parse(fill_in(subject_.url, intent));
    if (!url) return url.failure();
    Request request{.method = subject_.method, .url = std::move(*url), .headers = {}, .body = {}};
    if (auto key = key_header(subject_, one.spelling.value_or(subject_.key_spelling), intent.key))
        request.headers.push_back(std::move(*key));
    for (const Header& header : subject_.headers)
        if (!has(one.headers, header.name)) request.headers.push_back({header.name, fill_in(header.value, intent)});
    for (const Header& header : one.headers) request.headers.push_back({header.name, fill_in(header.value, intent)});
    request.body = one.body ? one.body : body_of(intent);
    const bool may_have_body = subject_.method != "GET" && subject_.method != "HEAD";
    if (request.body && !has(request.headers, "Content-Type"))
        request.headers.push_back({"Content-Type", "application/json"});
    if (!request.body && may_have_body) request.body = "";
    if (!has(request.headers, "Accept")) request.headers.push_back({"Accept", "*/*"});
    if (!has(request.headers, "User-Agent")) request.headers.push_back({"User-Agent", "semel-verify"});
    return request;
}

void Probe::keep(const Try& one, const Request& request, const Answer& answer, steady_clock::time_point began) {
    Exchange exchange;
    exchange.label = one.label;
    const auto bytes = to_bytes(request);
    const std::size_t body_bytes = request.body ? request.body->size() : 0;
    if (bytes) {
        const std::string_view head = std::string_view(*bytes).substr(0, bytes->size() - body_bytes);
        exchange.request = redacted(head, subject_.secret_headers) + request.body.value_or("");
    }
    exchange.response = redacted(answer.received, subject_.secret_headers);
    if (answer.response) exchange.response += answer.response->body;
    exchange.problem = answer.problem;
    exchange.took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
    uncounted_ = true;
    const std::lock_guard lock(mutex_);
    exchanges_.push_back(std::move(exchange));
}

Answer Probe::send(const Intent& intent, const Try& one) {
    const auto began = steady_clock::now();
    const auto request = request_of(intent, one);
    if (!request) return {.response = std::nullopt, .problem = request.failure().message, .received = {}};
    Answer answer = exchange(*request, tls_, deadline());
    keep(one, *request, answer, began);
    return answer;
}

Answer Probe::settle(const Intent& intent, const Try& each, Conflict conflict) {
    const auto until = steady_clock::now() + patience_.retry_within;
    milliseconds pause = retry_pause_min;
    Try one = each;
    while (true) {
        Answer answer = send(intent, one);
        if (is_final(answer, conflict)) return answer;
        const auto asked = answer.response ? retry_after(*answer.response) : std::nullopt;
        const auto next = steady_clock::now() + std::max(asked.value_or(pause), retry_pause_min);
        if (next >= until) return answer;
        std::this_thread::sleep_until(next);
        pause = std::min(pause * 2, retry_pause_max);
        one.label = each.label + ", again";
    }
}

std::vector<Answer> Probe::send_at_once(const Intent& intent, std::size_t count, const std::string& label) {
    std::vector<Answer> answers(count);
    const auto request = request_of(intent, {.label = label});
    if (!request) {
        for (Answer& each : answers) each.problem = request.failure().message;
        return answers;
    }
    const auto bytes = to_bytes(*request);
    const auto method = http::method_of(request->method);
    // Connections are made first: what is left to do at once is to send.
    std::barrier ready(static_cast<std::ptrdiff_t>(count));
    const auto twin = [&](std::size_t index) {
        auto connection = Connection::open(request->url, tls_, deadline());
        ready.arrive_and_wait();
        const auto began = steady_clock::now();
        const auto until = deadline();
        Answer& answer = answers[index];
        if (!bytes)
            answer.problem = bytes.failure().message;
        else if (!connection)
            answer.problem = connection.failure().message;
        else if (auto sent = connection->send(*bytes, until); !sent)
            answer.problem = sent.failure().message;
        else
            answer = receive(*connection, method, until);
        keep({.label = fmt::format("{} {}", label, index + 1)}, *request, answer, began);
    };
    std::vector<std::jthread> twins;
    for (std::size_t i = 0; i < count; ++i) twins.emplace_back(twin, i);
    twins.clear();  // joins
    return answers;
}

Status Probe::hang_up(const Intent& intent, const Try& one, Duration pause) {
    const auto began = steady_clock::now();
    const auto request = request_of(intent, one);
    if (!request) return request.failure();
    const auto bytes = to_bytes(*request);
    if (!bytes) return bytes.failure();
    Status sent = Done{};
    {
        auto connection = Connection::open(request->url, tls_, deadline());
        sent = connection ? connection->send(*bytes, deadline()) : Status(connection.failure());
        std::this_thread::sleep_for(pause);
    }
    const std::string problem = sent ? "hung up on purpose before the answer" : sent.failure().message;
    keep(one, *request, {.response = std::nullopt, .problem = problem, .received = {}}, began);
    return sent;
}

Result<std::optional<std::int64_t>> Probe::count(const Intent& intent) {
    if (counter_ == nullptr) return std::optional<std::int64_t>();
    const auto counted = counter_->count(intent);
    if (!counted) return counted.failure();
    last_count_ = *counted;
    uncounted_ = false;
    return std::optional(*counted);
}

void Probe::rest() {
    if (counter_ == nullptr || !uncounted_) return;
    std::this_thread::sleep_for(patience_.count_settle);
    // Whoever counts next says what is wrong with the counter.
    if (auto counted = count({}); !counted) last_count_.reset();
}

std::vector<Exchange> Probe::take_exchanges() {
    const std::lock_guard lock(mutex_);
    return std::exchange(exchanges_, {});
}

// ---- Effects -------------------------------------------------------------------------------------------------------

std::string effects_text(std::int64_t count) { return fmt::format("{} effect{}", count, count == 1 ? "" : "s"); }

Effects::Effects(Probe& probe, const Intent& intent) : probe_(probe), intent_(intent) {
    broken_ = count();
    if (!broken_ && seen_) before_ = *std::exchange(seen_, 0);
}

std::optional<Failed> Effects::count() {
    const auto counted = probe_.count(intent_);
    if (!counted)
        return Failed{Finding::uncounted, "the effects could not be counted", "a count", counted.failure().message};
    if (!*counted) return std::nullopt;
    seen_ = **counted - before_;
    if (*seen_ >= 0) return std::nullopt;
    return Failed{Finding::uncounted, "the effects could not be counted", "a count that never goes down",
                  fmt::format("{}, then {}", before_, **counted)};
}

std::optional<Failed> Effects::wait(const std::function<bool(std::int64_t)>& enough) {
    if (broken_ || !probe_.counts()) return broken_;
    const auto until = steady_clock::now() + probe_.patience().count_within;
    milliseconds pause = count_pause_min;
    while (true) {
        if (auto broken = count()) return broken;
        if (enough(*seen_)) break;
        const auto next = steady_clock::now() + pause;
        if (next >= until) return std::nullopt;
        std::this_thread::sleep_until(next);
        pause = std::min(pause * 2, count_pause_max);
    }
    // A double may come a little later than what it doubles.
    std::int64_t last = -1;
    while (last != *seen_ && steady_clock::now() < until) {
        last = *seen_;
        std::this_thread::sleep_for(probe_.patience().count_settle);
        if (auto broken = count()) return broken;
    }
    return std::nullopt;
}

std::optional<Failed> Effects::should_be(std::int64_t expected, const Answer& answer) {
    if (auto broken = wait([&](std::int64_t seen) { return seen >= expected; })) return broken;
    if (!seen_ || *seen_ == expected) return std::nullopt;
    Failed failed{Finding::doubled, "", effects_text(expected), effects_text(*seen_)};
    if (*seen_ > expected) {
        failed.reason =
            expected == 0 ? "the request had an effect" : fmt::format("the effect happened {} times", *seen_);
    } else {
        failed.finding = Finding::lost;
        failed.reason = fmt::format("the answer was {}, but the effect did not happen", answer.text());
    }
    return failed;
}

std::optional<Failed> Effects::should_be_at_most(std::int64_t most, const Answer& answer) {
    if (auto broken = wait([](std::int64_t) { return true; })) return broken;
    if (!seen_ || *seen_ <= most) return std::nullopt;
    return Failed{Finding::doubled,
                  fmt::format("the effect happened {} times; the last answer was {}", *seen_, answer.text()),
                  "at most " + effects_text(most), effects_text(*seen_)};
}

std::string Effects::note() const { return seen_ ? ", " + effects_text(*seen_) : ""; }

}  // namespace semel::verify
