#include "verify/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/quote.hpp"
#include "http/body.hpp"
#include "http/response.hpp"
#include "http/writer.hpp"

namespace semel::verify {
namespace {

constexpr std::size_t received_bytes_max = 64U << 10;  // of a head, kept to be shown

Answer without_response(std::string problem, std::string received = {}) {
    return {.response = std::nullopt, .problem = std::move(problem), .received = std::move(received)};
}

/// Bytes from a connection into the readers, one answer long.
class AnswerReader {
public:
    explicit AnswerReader(http::Method method) : head_(method) {}

    /// Nothing: feed more.
    std::optional<Answer> feed(std::string_view bytes) {
        while (!bytes.empty() && !in_body_) {
            const auto step = head_.feed(bytes);
            received_.append(bytes.substr(0, std::min(step.used, received_bytes_max - received_.size())));
            bytes.remove_prefix(step.used);
            if (step.progress == http::Progress::refused) return malformed(head_.fault());
            if (step.progress == http::Progress::more) return std::nullopt;
            if (head_.head().interim()) {
                head_.reset();
                continue;
            }
            begin_body();
        }
        return in_body_ ? feed_body(bytes) : std::nullopt;
    }

    Answer close() {
        if (!in_body_) return without_response("the connection was closed before an answer", received_);
        if (body_.close() == http::Progress::done) return done();
        return malformed(body_.fault());
    }

    [[nodiscard]] const std::string& received() const { return received_; }

private:
    void begin_body() {
        in_body_ = true;
        response_.status = head_.head().status;
        for (const http::Field& field : head_.head().fields)
            response_.fields.push_back({std::string(field.name), std::string(field.value)});
        body_.start(head_.head().framing, {.body_bytes_max = answer_bytes_max});
    }

    std::optional<Answer> feed_body(std::string_view bytes) {
        while (body_.progress() == http::Progress::more && !bytes.empty()) {
            const auto step = body_.feed(bytes);
            response_.body.append(step.data);
            bytes.remove_prefix(step.used);
        }
        if (body_.progress() == http::Progress::refused) return malformed(body_.fault());
        if (body_.progress() == http::Progress::more) return std::nullopt;
        return done();
    }

    Answer done() { return {.response = std::move(response_), .problem = {}, .received = std::move(received_)}; }

    Answer malformed(http::Fault fault) {
        return without_response(fmt::format("the answer is malformed: {}", http::message(fault)), received_);
    }

    http::ResponseReader head_;
    http::BodyReader body_;
    Response response_;
    std::string received_;
    bool in_body_ = false;
};

}  // namespace

Result<Header> parse_header(std::string_view text) {
    const auto refuse = [&](std::string_view why) {
        // What follows the colon may be a credential.
        return Failure{Code::invalid, fmt::format("header {}: {}; write it as in 'Name: value'",
                                                  in_quotes(text.substr(0, text.find(':'))), why)};
    };
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return refuse("it has no colon");
    Header header{std::string(text.substr(0, colon)), std::string(http::trimmed(text.substr(colon + 1)))};
    if (http::same_name(header.name, "host")) return refuse("Host comes from the URL");
    std::string unused;
    http::HeadWriter writer(unused);
    writer.status_line(200).field(header.name, header.value);
    const auto fault = writer.end(http::Framing::none());
    if (fault == http::Fault::none) return header;
    return refuse(fault == http::Fault::value_not_writable ? "its value has a control character"
                                                           : "no header that may be given has this name");
}

Result<std::string> to_bytes(const Request& request) {
    std::string bytes;
    http::HeadWriter head(bytes);
    head.request_line(request.method, request.url.target).field("Host", request.url.authority);
    for (const Header& header : request.headers) head.field(header.name, header.value);
    const auto framing = request.body ? http::Framing::of_length(request.body->size()) : http::Framing::none();
    const auto fault = head.end(framing, http::HeadWriter::Persistence::close);
    if (fault != http::Fault::none)
        return Failure{Code::invalid, fmt::format("request {} {}: {}", in_quotes(request.method),
                                                  in_quotes(request.url.target), http::message(fault))};
    if (request.body) bytes += *request.body;
    return bytes;
}

std::optional<std::string_view> Response::value(std::string_view name) const {
    const auto found = std::ranges::find_if(fields, [&](const Header& f) { return http::same_name(f.name, name); });
    if (found == fields.end()) return std::nullopt;
    return found->value;
}

std::size_t Response::count(std::string_view name) const {
    const auto same = [&](const Header& f) { return http::same_name(f.name, name); };
    return static_cast<std::size_t>(std::ranges::count_if(fields, same));
}

std::string Answer::text() const {
    if (!response) return problem;
    const std::string_view reason = http::reason_of(response->status);
    return fmt::format("{}{}{}", response->status, reason.empty() ? "" : " ", reason);
}

Answer receive(Connection& connection, http::Method method, Deadline deadline) {
    AnswerReader reader(method);
    std::array<char, 16384> block;
    while (true) {
        const auto got = connection.receive(block, deadline);
        if (!got) return without_response(got.failure().message, reader.received());
        if (*got == 0) return reader.close();
        if (auto answer = reader.feed({block.data(), *got})) return std::move(*answer);
    }
}

Answer exchange(const Request& request, const Tls& tls, Deadline deadline) {
    const auto bytes = to_bytes(request);
    if (!bytes) return without_response(bytes.failure().message);
    auto connection = Connection::open(request.url, tls, deadline);
    if (!connection) return without_response(connection.failure().message);
    // A server may refuse a request before it has read all of it: the answer says why, a failed send does not.
    if (auto sent = connection->send(*bytes, deadline); !sent) {
        Answer answer = receive(*connection, http::method_of(request.method), deadline);
        return answer.response ? std::move(answer) : without_response(sent.failure().message);
    }
    return receive(*connection, http::method_of(request.method), deadline);
}

}  // namespace semel::verify
