#include "cli/demo_client.hpp"

#include <array>

#include "http/body.hpp"
#include "http/problem.hpp"
#include "http/response.hpp"
#include "http/writer.hpp"

namespace semel::cli::demo {
namespace {

/// Fields of the connection, and what says of itself that it is about the replay and not of the answer.
bool is_of_the_answer(const http::Field& field, const http::ResponseHead& head) {
    return http::goes_on(field, head.connection) && !http::same_name(field.name, "Idempotent-Replayed") &&
           !http::name_starts_with(field.name, "Semel-");
}

std::string to_bytes(const PaymentRequest& request) {
    std::string bytes;
    http::HeadWriter head(bytes);
    head.request_line("POST", "/v1/payments").field("Host", "localhost").field("Authorization", "Bearer demo");
    head.field("Content-Type", "application/json").field("Idempotency-Key", request.key);
    if (request.fault != Fault::none) head.field("X-Demo", word(request.fault));
    const http::Fault fault =
        head.end(http::Framing::of_length(request.body.size()), http::HeadWriter::Persistence::close);
    return fault == http::Fault::none ? bytes + request.body : std::string();
}

std::optional<Response> receive(const Socket& socket) {
    http::ResponseReader reader(http::Method::post);
    http::BodyReader body;
    Response response;
    std::array<char, 8192> block{};
    while (true) {
        std::string_view left(block.data(), socket.receive(block));
        if (left.empty()) return std::nullopt;
        if (reader.progress() == http::Progress::more) {
            left.remove_prefix(reader.feed(left).used);
            if (reader.progress() == http::Progress::more) continue;
            if (reader.progress() == http::Progress::refused) return std::nullopt;
            body.start(reader.head().framing);
        }
        while (body.progress() == http::Progress::more && !left.empty()) {
            const http::BodyStep step = body.feed(left);
            left.remove_prefix(step.used);
            response.body.append(step.data);
        }
        if (body.progress() == http::Progress::refused) return std::nullopt;
        if (body.progress() == http::Progress::done) break;
    }
    response.status = reader.head().status;
    for (const http::Field& field : reader.head().fields)
        if (is_of_the_answer(field, reader.head())) response.fields.emplace_back(field.name, field.value);
    response.replayed = reader.head().fields.value("Idempotent-Replayed") == "true";
    return response;
}

}  // namespace

std::string_view Response::problem() const {
    const std::string_view text = body;
    const auto at = text.find(http::problem_type_prefix);
    if (at == std::string_view::npos) return {};
    const std::string_view slug = text.substr(at + http::problem_type_prefix.size());
    return slug.substr(0, slug.find('"'));
}

Result<std::optional<Response>> send_payment(std::uint16_t port, const PaymentRequest& request,
                                             std::chrono::milliseconds patience) {
    const auto socket = Socket::connect(port);
    if (!socket) return socket.failure();
    socket->patience(patience);
    if (!socket->send(to_bytes(request))) return std::optional<Response>();
    return receive(*socket);
}

}  // namespace semel::cli::demo
