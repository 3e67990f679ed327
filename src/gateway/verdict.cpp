#include "gateway/verdict.hpp"

#include <algorithm>

namespace semel::gateway {
namespace {

constexpr Verdict release{Verdict::What::release};
constexpr Verdict abandon{Verdict::What::abandon};
constexpr Verdict settle(bool conclusive) { return {Verdict::What::settle, conclusive}; }

bool is_success(int status) { return status >= 200 && status <= 299; }

bool lists(const std::vector<int>& statuses, int status) {
    return std::ranges::find(statuses, status) != statuses.end();
}

/// Whether the answer shows that the upstream executed the request. A 408 and every 5xx but 500 may come from something
/// in between that gave up on a request which runs on.
bool shows_execution(int status) { return status == 500 || (status >= 200 && status <= 499 && status != 408); }

Verdict answered(const Route& route, bool doubt, int status) {
    if (lists(route.release_on, status)) return release;
    if (doubt && lists(route.conclusive, status)) return settle(true);
    if (status == 401 || status == 425 || status == 429) return release;
    if (!shows_execution(status)) return abandon;
    return settle(!doubt || is_success(status));
}

}  // namespace

Verdict verdict(const Route& route, bool doubt, UpstreamEnd end) {
    if (route.webhook) return end.how == UpstreamEnd::How::answered && is_success(end.status) ? settle(true) : release;
    switch (end.how) {
        case UpstreamEnd::How::not_sent: return release;
        case UpstreamEnd::How::answered: return answered(route, doubt, end.status);
        case UpstreamEnd::How::timeout:
        case UpstreamEnd::How::broken: return abandon;
    }
    return abandon;
}

}  // namespace semel::gateway
