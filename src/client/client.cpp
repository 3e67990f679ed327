// The life of an intent, and what a crash leaves of it:
//
//   (absent) --persist--> begun --final answer--> settled
//                        ^     \--the run ended, surely nothing was executed--> not_executed --persist--> begun
//                        +------ the run gave up, or died: it stays begun
//
//   died before it was persisted     absent: nothing was sent, the next run mints a key of its own
//   died while it was persisted      absent, or begun and perhaps not durable: the next run persists it again before it sends
//   died after, before a try         begun, though nothing was sent: the next run sends with the same key
//   died during a try or a wait      begun: the next run sends with the same key; the server sees that it is the same
//   died after the answer came       begun: the next run sends again, and gets the replay
//   died after it was recorded       settled: the next run tells the recorded answer and sends nothing
//
// An intent is held while it runs, so that of two runs one sends. What is begun never changes its key, how that is written,
// method, URL, content type or body.
#include "semel/client.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "base/quote.hpp"
#include "client/points.hpp"
#include "client/request_check.hpp"
#include "client/run.hpp"
#include "ledger/key_header.hpp"
#include "semel/keys.hpp"

namespace semel::client {
namespace {

using State = IntentRecord::State;

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }

/// Waits so long, or until it is asked to stop.
void wait_for(Duration wait, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never_notified;
    std::unique_lock lock(mutex);
    never_notified.wait_for(lock, stop, wait, [] { return false; });
}

std::string_view content_type_of(const HttpRequest& request) {
    for (const HttpField& field : request.fields)
        if (http::same_name(field.name, "Content-Type")) return field.value;
    return {};
}

IntentRecord new_record(const HttpRequest& request, const Options& options, TimePoint now) {
    return {.key = mint_uuid7(),
            .method = request.method,
            .url = request.url,
            .content_type = std::string(content_type_of(request)),
            .body_sha256 = to_hex(sha256(request.body)),
            .key_header = options.key_header,
            .bare_key = options.bare_key,
            .created = now};
}

/// What the record and the request do not agree about, as far as it may be shown; empty: they agree.
std::string difference(const IntentRecord& record, const HttpRequest& request, const Options& options) {
    std::string found;
    const auto differ = [&](std::string text) { found += (found.empty() ? "" : "; ") + std::move(text); };
    if (record.method != request.method)
        differ(fmt::format("the method was {} and is {}", in_quotes(record.method), in_quotes(request.method)));
    // A query may hold a credential: it is not shown.
    const auto without_query = [](std::string_view url) { return url.substr(0, url.find('?')); };
    if (without_query(record.url) != without_query(request.url))
        differ(fmt::format("the URL was {} and is {}", in_quotes(without_query(record.url)),
                           in_quotes(without_query(request.url))));
    else if (record.url != request.url)
        differ("the URL's query is another one");
    if (record.content_type != content_type_of(request))
        differ(fmt::format("the content type was {} and is {}", in_quotes(record.content_type),
                           in_quotes(content_type_of(request))));
    const std::string digest = to_hex(sha256(request.body));
    if (record.body_sha256 != digest)
        differ(fmt::format("the body is another one (SHA-256 {} then, {} now)", record.body_sha256.substr(0, 12),
                           digest.substr(0, 12)));
    // A server that looks elsewhere for the key, or reads it otherwise, takes the same operation for another one.
    if (!http::same_name(record.key_header, options.key_header))
        differ(fmt::format("the key's header was {} and is {}", in_quotes(record.key_header),
                           in_quotes(options.key_header)));
    if (record.bare_key != options.bare_key)
        differ(options.bare_key ? "the key was written in quotes and now is not"
                                : "the key was written without quotes and now is in them");
    return found;
}

/// What may be kept of an answer: none of what belongs to one session of one client.
HttpAnswer kept(HttpAnswer answer, bool body_too) {
    std::erase_if(answer.fields, [](const HttpField& field) {
        return http::same_name(field.name, "Set-Cookie") || http::same_name(field.name, "WWW-Authenticate") ||
               http::same_name(field.name, "Authorization") || http::is_hop_by_hop(field.name);
    });
    if (!body_too && !answer.body.empty()) {
        answer.body.clear();
        answer.whole = false;
    }
    return answer;
}

Outcome kept(Outcome outcome, bool body_too) {
    if (auto* end = std::get_if<Succeeded>(&outcome)) end->answer = kept(std::move(end->answer), body_too);
    if (auto* end = std::get_if<Refused>(&outcome)) end->answer = kept(std::move(end->answer), body_too);
    return outcome;
}

}  // namespace

class Client::Engine {
public:
    Engine(Options options, HttpCaller caller) : options_(std::move(options)), caller_(std::move(caller)) {}

    Result<Report> call(const HttpRequest& given, std::string_view intent, Journal& journal,
                        const std::stop_token& stop) {
        auto request = checked(given);
        if (!request) return std::move(request).failure();
        const auto held = journal.hold(intent);
        if (!held) return held.failure();
        std::optional<IntentRecord> record = (*held)->record();
        if (record) {
            if (const std::string what = difference(*record, *request, options_); !what.empty())
                return refused(
                    fmt::format("intent {}: it was begun as another request: {}; nothing was sent. Other "
                                "work needs another name",
                                in_quotes(intent), what));
            if (record->state == State::settled && record->outcome)
                return Report{.outcome = *record->outcome, .key = record->key, .recorded = true};
        } else {
            record = new_record(*request, options_, clock_.wall());
        }
        const bool doubt = (*held)->record() && record->state == State::begun;
        // Also what was found begun: whoever wrote it may have died before it was durable.
        if (auto begun = save(**held, *record, State::begun); !begun)
            return Failure{begun.failure().code, begun.failure().message + "; nothing was sent"};
        reach(Point::after_persist);
        Ran ran = run_with(*request, record->key, doubt, stop);
        reach(Point::after_answer);
        Report report{.outcome = ran.outcome, .key = record->key, .tries = ran.tries};
        record->tries += ran.tries;
        if (auto saved = save_end(**held, *record, std::move(ran)); !saved)
            report.not_recorded = saved.failure().message;
        reach(Point::after_record);
        return report;
    }

    Result<Report> call(const HttpRequest& given, const Key& key, const std::stop_token& stop) {
        const auto request = checked(given);
        if (!request) return request.failure();
        Ran ran = run_with(*request, key, false, stop);
        return Report{.outcome = std::move(ran.outcome), .key = key, .tries = ran.tries};
    }

    [[nodiscard]] Status writable(const Key& key) const {
        if (!options_.bare_key) return Done{};
        const auto read = key_from_header(key.text());
        if (read && *read == key) return Done{};
        return refused(fmt::format("key {}: it cannot be written without quotes (bare_key)", in_quotes(key.text())));
    }

private:
    [[nodiscard]] Result<HttpRequest> checked(const HttpRequest& request) const {
        return checked_request(request, options_.key_header);
    }

    Status save(HeldIntent& held, IntentRecord& record, State state) {
        record.state = state;
        record.changed = clock_.wall();
        if (state == State::begun) reach(Point::before_persist);
        return held.save(record);
    }

    Status save_end(HeldIntent& held, IntentRecord& record, Ran ran) {
        if (is_settled(ran.outcome)) {
            record.outcome = kept(std::move(ran.outcome), options_.store_body);
            return save(held, record, State::settled);
        }
        return save(held, record, ran.doubt ? State::begun : State::not_executed);
    }

    Ran run_with(HttpRequest request, const Key& key, bool doubt, const std::stop_token& stop) {
        request.fields.push_back({options_.key_header, options_.bare_key ? key.text() : key_to_header(key)});
        HttpCallOptions call{.tls = options_.tls,
                             .connect_timeout = options_.connect_timeout,
                             .answer_bytes_max = options_.answer_bytes_max};
        const World world{.clock = clock_,
                          .random = random_,
                          .call =
                              [&](Duration timeout) {
                                  call.timeout = timeout;
                                  return caller_.call(request, call, stop);
                              },
                          .wait = [&](Duration wait) { wait_for(wait, stop); },
                          .stopped = [&] { return stop.stop_requested(); }};
        return run(options_.retry, options_.timeout, doubt, world);
    }

    Options options_;
    HttpCaller caller_;
    SystemClock clock_;
    SystemRandom random_;
};

Client::Client(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::open(Options options) {
    if (auto fine = check_key_header(options.key_header); !fine) return fine.failure();
    if (options.retry.tries_max == 0) return refused("tries: at least one");
    for (const auto& [name, value] :
         {std::pair<std::string_view, Duration>{"budget", options.retry.budget}, {"timeout", options.timeout}})
        if (value <= Duration::zero() || value > patience_max)
            return refused(fmt::format("{} {}: must be longer than nothing, and {} at most", name, to_text(value),
                                       to_text(patience_max)));
    auto caller = HttpCaller::open(options.tls);
    if (!caller) return caller.failure();
    return Client(std::make_unique<Engine>(std::move(options), std::move(*caller)));
}

Result<Report> Client::call(const HttpRequest& request, std::string_view intent, Journal& journal,
                            const std::stop_token& stop) {
    return engine_->call(request, intent, journal, stop);
}

Result<Report> Client::call(const HttpRequest& request, const Key& key, const std::stop_token& stop) {
    if (auto fine = engine_->writable(key); !fine) return fine.failure();
    return engine_->call(request, key, stop);
}

}  // namespace semel::client
