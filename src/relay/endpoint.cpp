#include "relay/endpoint.hpp"

#include "base/clock.hpp"

namespace semel::relay {
namespace {

using How = DeliveryEnd::How;

Delivered answered(HttpAnswer answer) {
    Delivered delivered;
    delivered.end.how = How::answered;
    delivered.end.status = answer.status;
    delivered.end.replayed = is_replayed(answer);
    delivered.end.retry_after = retry_after(answer, SystemClock{}.wall());
    if (delivered.end.retry_after == Duration::zero()) delivered.end.retry_after.reset();  // the usual backoff
    delivered.end.problem = read_problem(answer);
    delivered.content_type = answer.value("Content-Type").value_or("");
    delivered.body = std::move(answer.body);
    delivered.whole = answer.whole;
    return delivered;
}

Delivered unanswered(How how, std::string reason) {
    Delivered delivered;
    delivered.end.how = how;
    delivered.end.reason = std::move(reason);
    return delivered;
}

}  // namespace

Endpoint::Endpoint(EndpointOptions options, RequestMaker maker, HttpCaller caller)
    : options_(std::move(options)), maker_(std::move(maker)), caller_(std::move(caller)) {}

Result<Endpoint> Endpoint::open(EndpointOptions options) {
    auto maker = RequestMaker::make(options.request);
    if (!maker) return std::move(maker).failure();
    auto caller = HttpCaller::open(options.call.tls);
    if (!caller) return Failure{caller.failure().code, "to." + caller.failure().message};
    return Endpoint(std::move(options), std::move(*maker), std::move(*caller));
}

Result<Delivered> Endpoint::deliver(const Parcel& parcel) {
    auto request = maker_.request(parcel);
    if (!request) return std::move(request).failure();
    HttpEnd end = caller_.call(*request, options_.call);
    if (auto* answer = std::get_if<HttpAnswer>(&end)) return answered(std::move(*answer));
    if (auto* none = std::get_if<HttpNoAnswer>(&end))
        return unanswered(none->why == HttpNoAnswer::Why::timeout ? How::timeout : How::broken,
                          std::move(none->reason));
    return unanswered(How::not_sent, std::move(std::get<HttpNotSent>(end).reason));
}

}  // namespace semel::relay
