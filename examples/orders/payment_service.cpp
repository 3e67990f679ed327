// Charges the card for every order.placed, at a payment provider that no transaction of ours covers.
//
//     DATABASE=postgres://… BROKER=nats BROKER_URL=nats://… PROVIDER_URL=http://… PROVIDER=deduplicates|at_most_once payment_service
//
// The charge is an intent: claimed durably, called with a key that is the same for ever, settled durably. Its result and the
// event that tells of it are one step, in one transaction. What each crash leaves:
//   before the charge is claimed   nothing; the message is delivered again
//   in the call                    unknown: a provider that deduplicates is asked again with the same key; with another one the
//                                  order is parked, listed in `payment`, and waits for a person
//   charged, not recorded          the settled charge; the next delivery records it
//   recorded                       everything; the next delivery finds it done
#include <curl/curl.h>
#include <semel/committer.hpp>
#include <semel/fingerprint.hpp>
#include <semel/intent.hpp>

#include "service.hpp"

namespace {

using namespace semel;
using namespace semel::effects;

std::size_t append(char* data, std::size_t size, std::size_t count, void* text) {
    static_cast<std::string*>(text)->append(data, size * count);
    return size * count;
}

/// One request, never repeated here: that is the intent's to decide.
Reply charge(const std::string& url, const orders::Order& order, const Call& call) {
    const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
    const std::string body = "{\"order\": \"" + order.id + "\", \"cents\": " + std::to_string(order.cents) + "}";
    std::string answer;
    curl_slist* fields = curl_slist_append(nullptr, ("Idempotency-Key: \"" + call.key.text() + "\"").c_str());
    fields = curl_slist_append(fields, "Content-Type: application/json");
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, 1000L);
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    const CURLcode code = curl_easy_perform(curl.get());
    curl_slist_free_all(fields);
    if (code == CURLE_COULDNT_CONNECT) return NotSent{curl_easy_strerror(code), std::nullopt};
    if (code != CURLE_OK) return InDoubt{curl_easy_strerror(code), std::nullopt};
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    // The provider says that 503 means: not charged.
    if (status == 503) return NotSent{"the provider is busy", std::nullopt};
    return http_reply(static_cast<std::int32_t>(status), answer);
}

Provider provider() {
    Provider one = orders::setting("PROVIDER", "deduplicates") == "deduplicates"
                       ? Provider::deduplicating("acme-pay", std::chrono::hours{24})
                       : Provider::at_most_once("acme-pay");
    one.lease = std::chrono::seconds{2};
    one.call_deadline = std::chrono::seconds{2};
    return one;
}

void record(Steps& steps, const orders::Order& order, const std::string& state, const Outcome& outcome) {
    steps.step("record", [&](Transaction transaction) {
        const std::string correlation = orders::correlation_of(steps.event());
        orders::run(transaction.postgres,
                    "insert into payment (order_id, state, receipt, correlation) values ($1, $2, $3, $4)",
                    {order.id, state, outcome.body, correlation});
        orders::stage(transaction.postgres, state == "paid" ? "order.paid" : "order.refused", order.id,
                      steps.event().data, correlation);
        return std::string{};
    });
}

}  // namespace

int main() {
    const sigset_t signals = orders::block_signals();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const std::string database = orders::setting("DATABASE");
    const std::string url = orders::setting("PROVIDER_URL");
    const Provider acme = provider();
    const auto store = orders::must(postgres::open({.uri = database}));
    const auto committer = orders::must(Committer::start(*store));
    Intents intents(*committer);

    ConsumerOptions options;
    options.name = "payment";
    options.lease = std::chrono::seconds{2};
    options.retries.first = std::chrono::milliseconds{100};
    options.retries.max = std::chrono::seconds{2};
    options.retries.tries_max = 1000;
    options.log = [](std::string_view line) { std::cerr << line << "\n"; };

    const auto pay = [&](Steps& steps) {
        const orders::Order order = orders::read_order(steps.event());
        // The order, not the message, is what is charged once: a message that a person retries is another message.
        const Operation parent{*Scope::make("", "order"), *Key::parse(order.id)};
        Intent intent{.parent = parent, .step = "charge"};
        intent.fingerprint = fingerprint_of_bytes(steps.event().data);
        intent.correlation = orders::correlation_of(steps.event());
        intent.provider = acme;
        intent.call = [&](const Call& call) { return charge(url, order, call); };
        intent.limits.busy_wait = std::chrono::seconds{3};
        const auto performed = intents.perform(intent);
        if (!performed) throw std::runtime_error(performed.failure().message);
        std::visit(
            match{[&](const Performed& done) { record(steps, order, "paid", done.outcome); },
                  [&](const Failed& failed) { record(steps, order, "refused", failed.outcome); },
                  [&](const OutcomeUnknown& unknown) {
                      if (acme.repeating == Repeating::deduplicated) throw std::runtime_error(unknown.why);
                      // For a person: `semel ops resolve`, then `semel dead retry`.
                      throw Reject("charge: " + unknown.why);
                  },
                  [&](const NotPerformed& not_yet) { throw std::runtime_error(not_yet.error); },
                  [&](const Busy&) { throw std::runtime_error("another process is charging it"); },
                  [&](const Superseded&) { throw std::runtime_error("another process has taken the charge over"); },
                  [&](const Mismatch&) { throw Reject("the order was charged before with another amount"); }},
            *performed);
    };
    const auto consumer = orders::must(Consumer::make(options, orders::open_source("order.placed", "payment"),
                                                      orders::must(postgres::open_inbox({.uri = database})),
                                                      StepHandler(pay), *committer));
    return orders::serve(*consumer, signals);
}
