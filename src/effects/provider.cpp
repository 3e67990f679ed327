// What is known about other people's APIs.
#include "semel/intent.hpp"

namespace semel::effects {

using std::chrono::hours;

std::string_view name(Repeating repeating) {
    switch (repeating) {
        case Repeating::never: return "never";
        case Repeating::after_lookup: return "after_lookup";
        case Repeating::deduplicated: return "deduplicated";
    }
    return "?";
}

Provider Provider::deduplicating(std::string name, Duration window) {
    return {.name = std::move(name), .repeating = Repeating::deduplicated, .dedup_window = window};
}
Provider Provider::looked_up(std::string name) {
    return {.name = std::move(name), .repeating = Repeating::after_lookup};
}
Provider Provider::at_most_once(std::string name) { return {.name = std::move(name), .repeating = Repeating::never}; }

// docs.stripe.com/api/idempotent_requests: keys can be removed after they are at least 24 hours old.
Provider Provider::stripe() { return deduplicating("Stripe", hours{24}); }
// docs.adyen.com/development-resources/api-idempotency: keys are valid for at least 7 days after their first use.
Provider Provider::adyen() { return deduplicating("Adyen", hours{24 * 7}); }
// developer.paypal.com, Orders v2, PayPal-Request-Id: keys are stored for 6 hours unless an account manager has raised it. Other
// PayPal APIs store them longer, and some not at all.
Provider Provider::paypal_orders() { return deduplicating("PayPal", hours{6}); }
// checkout.com/docs/payments/manage-payments/idempotency: keys expire after 24 hours by default.
Provider Provider::checkout_com() { return deduplicating("Checkout.com", hours{24}); }
// docs.truelayer.com/docs/idempotency-for-payment-requests: keys are valid for 30 days from creation.
Provider Provider::truelayer() { return deduplicating("TrueLayer", hours{24 * 30}); }

Reply http_reply(std::int32_t status, std::string body) {
    std::string said = "the other side answered " + std::to_string(status);
    if (status >= 200 && status < 300) return Answered{{status, std::move(body), true}, true};
    if (status == 401 || status == 425 || status == 429) return NotSent{std::move(said), std::nullopt};
    if (status >= 400 && status < 500 && status != 408) return Answered{{status, std::move(body), true}, false};
    return InDoubt{std::move(said), std::nullopt};
}

}  // namespace semel::effects
