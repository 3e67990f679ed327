#include "cli/demo_payments.hpp"

#include <fmt/format.h>

#include <thread>

#include "cli/demo_wallet.hpp"
#include "ledger/fingerprint.hpp"
#include "semel/keys.hpp"

namespace semel::cli::demo {

// ---- provider --------------------------------------------------------------------------------------------------

std::string Provider::charge(const Key& key, std::int64_t cents) {
    const std::lock_guard lock(mutex_);
    ++calls_[key];
    return fmt::format(R"({{"receipt":{},"amount":"{}"}})", ++charges_, money(cents));
}

std::uint64_t Provider::charges() const {
    const std::lock_guard lock(mutex_);
    return charges_;
}

std::uint64_t Provider::charges_of(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(key);
    return found == calls_.end() ? 0 : found->second;
}

// ---- store -----------------------------------------------------------------------------------------------------

class LossyStore::LossySession final : public Session {
public:
    LossySession(LossyStore& store, std::unique_ptr<Session> session) : store_(store), session_(std::move(session)) {}

    Result<Executed> execute(std::span<const Group> groups) override {
        auto executed = session_->execute(groups);
        if (!executed || !store_.lose_.exchange(false)) return executed;
        ++store_.lost_;
        return Failure{Code::indeterminate, "no reply to COMMIT"};
    }

private:
    LossyStore& store_;
    std::unique_ptr<Session> session_;
};

Result<std::unique_ptr<Session>> LossyStore::session() {
    auto session = store_->session();
    if (!session) return session.failure();
    return std::unique_ptr<Session>(std::make_unique<LossySession>(*this, std::move(*session)));
}

// ---- API -------------------------------------------------------------------------------------------------------

Operation PaymentsApi::operation(const Payment& payment) { return {Scope::parse(payments_scope).value(), payment.key}; }

Key PaymentsApi::charge_key(const Payment& payment) { return derive(operation(payment), "charge"); }

Result<PaymentsApi::Response> PaymentsApi::charge_and_settle(const Step& step, const Claimed& claimed) {
    const Operation operation = PaymentsApi::operation(step.payment);
    const Outcome outcome{201, provider_.charge(charge_key(step.payment), step.payment.cents), true};
    if (step.settle_reply_lost) store_.lose_next_reply();
    const auto settled = committer_.settle({operation.id(), claimed.token, claimed.attempt}, outcome);
    if (!settled) return settled.failure();
    if (!std::holds_alternative<Ok>(*settled))
        return Failure{Code::unavailable, operation.text() + ": could not be settled"};
    return Response{outcome, false};
}

Result<PaymentsApi::Response> PaymentsApi::pay(const Step& step) {
    const std::string body = step.payment.json();
    const Request request{.method = "POST", .path = "/v1/payments", .content_type = "application/json", .body = body};
    const Claim claim{.operation = operation(step.payment),
                      .fingerprint = fingerprint_of(request),
                      .attempt = {},
                      .policy = {},
                      .key_time = {},
                      .correlation = step.payment.correlation};
    const auto refused = [&](std::string_view why) {
        return Result<Response>(Failure{Code::unavailable, fmt::format("{}: {}", claim.operation.text(), why)});
    };
    while (true) {
        const auto sent = std::chrono::steady_clock::now();
        const auto answer = committer_.claim(claim);
        if (!answer) return answer.failure();
        if (std::holds_alternative<Busy>(*answer)) {
            // A client would be told 409 and come again; the first request will be done in a moment.
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
            continue;
        }
        return std::visit(match{[&](const Claimed& claimed) {
                                    // I4: not with a lease that may be over.
                                    if (std::chrono::steady_clock::now() > begin_before(sent, claim.policy.lease))
                                        return refused("the claim came too late to begin");
                                    return charge_and_settle(step, claimed);
                                },
                                [&](const Replay& replay) {
                                    return Result<Response>(Response{replay.outcome, true});
                                },
                                [&](const Busy&) { return refused("in progress"); },
                                [&](const Mismatch&) { return refused("the key was used for another payment"); },
                                [&](const Unknown&) { return refused("the outcome is unknown"); },
                                [&](const Expired&) { return refused("the key has expired"); }},
                          *answer);
    }
}

}  // namespace semel::cli::demo
