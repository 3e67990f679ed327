#include "cli/demo_client.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "http/fields.hpp"
#include "http/problem.hpp"

namespace semel::cli::demo {
namespace {

bool is_of_the_answer(const verify::Header& field) {
    return !http::is_hop_by_hop(field.name) && !http::same_name(field.name, "Idempotent-Replayed") &&
           !http::name_starts_with(field.name, "Semel-");
}

std::vector<verify::Header> own_fields(const verify::Response& response) {
    std::vector<verify::Header> own;
    std::ranges::copy_if(response.fields, std::back_inserter(own), is_of_the_answer);
    return own;
}

}  // namespace

Client::Client(std::uint16_t port)
    : url_(http::Url::parse(fmt::format("http://127.0.0.1:{}/v1/payments", port)).value()),
      tls_(verify::Tls::make({}).value()) {}

Result<std::optional<verify::Response>> Client::pay(const PaymentRequest& request,
                                                    std::chrono::milliseconds patience) const {
    verify::Request payment{.method = "POST",
                            .url = url_,
                            .headers = {{"Authorization", "Bearer demo"},
                                        {"Content-Type", "application/json"},
                                        {"Idempotency-Key", request.key}},
                            .body = request.body};
    if (request.fault != Fault::none) payment.headers.push_back({"X-Demo", std::string(word(request.fault))});
    const auto bytes = verify::to_bytes(payment);
    if (!bytes) return bytes.failure();
    auto connection = verify::Connection::open(url_, tls_, std::chrono::steady_clock::now() + answer_within);
    if (!connection) return connection.failure();
    const auto deadline = std::chrono::steady_clock::now() + patience;  // the demo is about answers, not about connects
    if (const auto sent = connection->send(*bytes, deadline); !sent) return std::optional<verify::Response>();
    return verify::receive(*connection, http::Method::post, deadline).response;
}

bool same_answer(const verify::Response& a, const verify::Response& b) {
    return a.status == b.status && a.body == b.body && own_fields(a) == own_fields(b);
}

bool is_replay(const verify::Response& response) { return response.value("Idempotent-Replayed") == "true"; }

std::string_view problem_of(const verify::Response& response) {
    const std::string_view text = response.body;
    const auto at = text.find(http::problem_type_prefix);
    if (at == std::string_view::npos) return {};
    const std::string_view slug = text.substr(at + http::problem_type_prefix.size());
    return slug.substr(0, slug.find('"'));
}

}  // namespace semel::cli::demo
