// What the end of an upstream call means for the operation. Pure; the table of the design's "What is stored":
//
//                               no doubt   under doubt (I11)
//   not one byte was sent       release    release
//   a status of release_on      release    release
//   2xx                         settle     settle
//   401, 425, 429               release    release; settle if the route lists it in `conclusive`
//   other 3xx, 4xx, 500         settle     settle, inconclusively; settle if `conclusive` lists it
//   408, 501 to 599             abandon    abandon; settle if `conclusive` lists it
//   timeout, reset, half answer abandon    abandon
//
// Under doubt the ledger itself makes unknown of a release and of an inconclusive settle. On webhook routes 2xx settles
// and anything else is released: the provider sends the event again, and its handler can take that.
#pragma once

#include <cstdint>

#include "gateway/config.hpp"

namespace semel::gateway {

/// How an upstream call ended.
struct UpstreamEnd {
    enum class How : std::uint8_t {
        not_sent,  ///< not one byte was written to a socket
        answered,  ///< a whole answer, with `status`
        timeout,   ///< sent, perhaps in part; no whole answer in time
        broken,    ///< sent, perhaps in part; reset, closed, half an answer, or one that is no HTTP
    };
    How how = How::not_sent;
    int status = 0;  ///< of answered: 200 to 599

    static constexpr UpstreamEnd not_sent() { return {How::not_sent, 0}; }
    static constexpr UpstreamEnd answered(int status) { return {How::answered, status}; }
    static constexpr UpstreamEnd timeout() { return {How::timeout, 0}; }
    static constexpr UpstreamEnd broken() { return {How::broken, 0}; }
};

/// What to tell the ledger.
struct Verdict {
    enum class What : std::uint8_t { settle, release, abandon };
    What what = What::abandon;
    bool conclusive = true;  ///< of settle: Settle::conclusive
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// `doubt`: of the claim, Claimed::doubt.
Verdict verdict(const Route& route, bool doubt, UpstreamEnd end);

}  // namespace semel::gateway
