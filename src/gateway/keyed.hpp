// A request with a key: claimed, performed once, settled, and answered with what the ledger says.
//
//   read the body -> signature -> key -> tenant -> claim -+- Claimed  -> forward, judge the answer, tell the ledger, answer
//                                                         +- Replay   -> the stored response
//                                                         +- Busy     -> 409, or wait and claim again
//                                                         +- Mismatch, Unknown, Expired -> 422, 409, 410
//
// Once it is claimed, the operation belongs to the gateway: nothing the client does afterwards cancels it. What a crash
// leaves (reach() marks the moments):
//
//   before_claim      nothing                             the retry runs
//   after_claim       running; its lease runs out, or the next owner finds it: unknown, though nothing was sent
//   after_forwarding  as above: the upstream may have executed it
//   after_answer      as above: it has executed it, and nobody has heard the answer
//   after_settle      settled; the retry gets the replay
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gateway/kept_request.hpp"
#include "gateway/key_source.hpp"
#include "gateway/session.hpp"
#include "gateway/verdict.hpp"

namespace semel::gateway {

/// One request on a keyed route. Lives as long as its run().
class KeyedRequest {
public:
    KeyedRequest(Session& session, Worker& worker, std::shared_ptr<const LocalSite> local, const RouteState& state);

    /// Answers the request. The result is whether the connection goes on.
    Task<bool> run();

private:
    /// The ledger's answer when nothing was forwarded, or how it went when it was.
    Task<bool> answer_with(ClaimAnswer answer);
    Task<bool> answer_for(Claimed claimed);
    Task<bool> answer_for(Replay replay);
    Task<bool> answer_for(Busy busy);
    Task<bool> answer_for(Mismatch mismatch);
    Task<bool> answer_for(Unknown unknown);
    Task<bool> answer_for(Expired expired);

    /// Steps before the claim. Empty: go on; else the request was answered, and whether the connection goes on.
    Task<std::optional<bool>> prepare_operation();
    Task<Result<ClaimAnswer>> claim();
    [[nodiscard]] std::optional<ClaimAnswer> answer_from_memory();
    void remember(Outcome outcome, TimePoint settled_at);
    Task<bool> store_failed(Failure failure);
    Task<bool> stored_unreadable(Failure failure);
    Task<bool> store_unavailable();
    Task<bool> pass_unheld(Answered would_be);
    Task<bool> refuse(http::Problem problem, std::string detail);
    [[nodiscard]] http::ProblemDetails details_of(std::string_view detail) const;

    // with the claim
    Task<bool> perform(const Claimed& claimed);
    [[nodiscard]] std::optional<std::string_view> take_up_first();
    Task<bool> not_sent_again(std::string_view why);
    Task<> release_unsent();
    Task<bool> not_begun(std::string_view why);
    [[nodiscard]] std::string upstream_request(const Claimed& claimed);
    Task<bool> judge(Exchange& exchange, Ended ended);
    Task<bool> settle(Exchange& exchange, bool conclusive);
    Task<bool> inconclusive(Exchange& exchange);
    Task<bool> superseded(Exchange& exchange);
    Task<bool> settled_by_application(HolderAnswer told, Exchange& exchange, Ended ended);
    Task<bool> release(Exchange& exchange, Ended ended);
    Task<bool> abandon(Exchange& exchange, Ended ended);
    Task<bool> relay_large(Exchange& exchange);
    Task<bool> answer_with_response(const http::ResponseHead& head, std::string_view body, bool stored);
    [[nodiscard]] bool repeatable() const;
    Task<bool> answer_not_retained(int status);
    Task<bool> answer_not_forwarded();
    Task<bool> answer_with_stored(const StoredResponse& stored, bool replayed, TimePoint settled_at);
    enum class MayReplay : std::uint8_t { yes, no, nobody_knows };
    Task<MayReplay> may_replay();
    Task<MayReplay> ask_replay_auth(const std::string& request, bool& stale);
    void tell_later(Command command);
    void log(Log::Level level, std::string_view event, int status = 0, std::string_view why = {});
    [[nodiscard]] std::string expires_text(TimePoint settled_at) const;

    [[nodiscard]] const Route& route() const { return *state_.route; }
    [[nodiscard]] const Site& site() const { return *local_->site; }
    [[nodiscard]] const Limits& limits() const { return site().config().limits; }

    Session& session_;
    Worker& worker_;
    std::shared_ptr<const LocalSite> local_;
    const RouteState& state_;
    std::optional<Operation> operation_;
    OperationId id_{};
    Fingerprint fingerprint_{};
    std::string correlation_;
    bool key_in_header_ = true;
    SteadyTime claim_sent_{};
    std::shared_ptr<Held> held_;
    bool doubt_ = false;
    bool hot_ = false;                  // answered from memory
    bool keeps_request_ = false;        // the claim brings it
    std::string sent_first_;            // under doubt: what the first claim brought
    std::optional<KeptRequest> first_;  // of it, where there is a body that is sent instead of this request's
    std::string body_;                  // of the upstream's answer
};

}  // namespace semel::gateway
