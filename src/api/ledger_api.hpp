// The ledger over HTTP and JSON, for services in any language (docs/ledger-api.md).
//
//   POST /v1/claim, renew, checkpoint, settle, release, abandon, resolve     one command
//   POST /v1/batch                                                            groups of them, each standing or falling whole
//   GET  /v1/operations?scope=…&key=…                                         what is known of one
//   GET  /v1/openapi.yaml                                                     this, for programs; without a token
//
// `Authorization: Bearer` says who asks: the tenant comes from there and nowhere else.
//
// A claim's reply may be lost, and this is what each loss leaves:
//   the client hangs up while it waits     attempt minted here: the grant is released when it comes (I6)
//                                          attempt given: the grant stays, for the client repeats the very same claim
//   granted, the reply cannot be written   likewise
//   written, lost on the way               the lease runs out: unknown, or the next claim's (its policy); or, attempt
//                                          given, the client repeats the claim and has the same grant
//   this process dies after the commit     likewise; on an embedded store it is unknown as soon as that is opened again (I5)
// A grant whose attempt the client named is never released here: its repetition may have found it meanwhile on another
// connection, and would perform its effect without holding anything.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "api/tokens.hpp"
#include "http/service.hpp"
#include "semel/committer.hpp"

namespace semel::api {

/// What somebody decided on an unknown outcome, and what the ledger said to it.
struct Resolution {
    const Operation& operation;
    const Resolve& command;
    std::string_view answer;   ///< `ok`, `fenced`…, or a problem's slug
    std::string_view failure;  ///< why there is no answer of the ledger; empty: there is one
};

struct LedgerApiOptions {
    std::vector<TokenOptions> tokens{};
    std::size_t body_bytes_max = 4U << 20;
    Duration timeout = std::chrono::seconds{5};  ///< then the store has failed
    /// Told of every resolve, on a thread of the committer, whether or not its caller still waits. Must not block.
    std::function<void(const Resolution&)> resolved{};
};

/// Outlives the committer it uses: that gives its last answers when it ends.
class LedgerApi final : public http::Service {
public:
    LedgerApi(Committer& committer, const LedgerApiOptions& options);
    ~LedgerApi() override;
    LedgerApi(const LedgerApi&) = delete;
    LedgerApi& operator=(const LedgerApi&) = delete;

    [[nodiscard]] bool serves(std::string_view path) const override;
    [[nodiscard]] std::variant<std::size_t, http::Reply> admit(const http::RequestHead& head) const override;
    std::unique_ptr<http::Pending> answer(const http::RequestHead& head, std::string body,
                                          std::move_only_function<void(http::MakeReply)> done) override;
    [[nodiscard]] std::chrono::milliseconds within() const override;
    [[nodiscard]] std::string metrics() const override;

private:
    class Parts;
    std::unique_ptr<Parts> parts_;
};

/// packaging/ledger-api.openapi.yaml, as it was compiled in.
extern const char* const openapi_document;

}  // namespace semel::api
