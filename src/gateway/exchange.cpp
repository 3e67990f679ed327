#include "gateway/exchange.hpp"

#include <fmt/format.h>

namespace semel::gateway {

using http::Progress;

Ended Exchange::fail(std::string_view doing, const Error& error) {
    const bool late = connection_->deadline.expired();
    why_ = fmt::format("{} {}: {}", doing, connection_->server().text(),
                       late                        ? "no whole answer in time (upstream.response_timeout)"
                       : error == asio::error::eof ? "the connection was closed"
                                                   : error.message());
    return late ? Ended::timed_out : Ended::failed;
}

Task<Ended> Exchange::connect() {
    UpstreamPool::Got got = co_await pool_->acquire();
    if (!got.connection) {
        why_ = std::move(got.why);
        co_return Ended::not_sent;
    }
    connection_ = std::move(got.connection);
    co_return Ended::well;
}

Task<Ended> Exchange::send(std::string_view head, std::string_view body) {
    connection_->deadline.arm(pool_->config().response_timeout);
    const auto [error, sent] = co_await connection_->stream.write(head, body);
    if (!error) co_return Ended::well;
    cut_ = true;
    const Ended ended = fail("send to", error);
    // Nothing left this machine.
    if (sent == 0 && connection_->stream.tls() == nullptr) co_return Ended::not_sent;
    co_return ended;
}

Task<Ended> Exchange::send_more(std::string_view bytes) {
    connection_->deadline.arm(pool_->config().response_timeout);
    const auto [error, sent] = co_await connection_->stream.write(bytes);
    if (!error) co_return Ended::well;
    cut_ = true;
    co_return fail("send to", error);
}

Task<Ended> Exchange::fill() {
    if (!whole_limit_) connection_->deadline.arm(pool_->config().response_timeout);
    std::string& buffer = connection_->buffer;
    const auto [error, got] = co_await connection_->stream.read_some(asio::buffer(buffer.data(), buffer.size()));
    closed_ = error == asio::error::eof;
    if (error || (whole_limit_ && connection_->deadline.expired())) co_return fail("answer of", error);
    answering_ = true;
    left_ = std::string_view(buffer.data(), got);
    co_return Ended::well;
}

Task<Ended> Exchange::read_head(Duration within) {
    whole_limit_ = within > Duration{0};
    if (whole_limit_) connection_->deadline.arm(within);
    while (true) {
        if (left_.empty())
            if (const Ended ended = co_await fill(); ended != Ended::well) co_return ended;
        const http::Step step = reader_.feed(left_);
        left_.remove_prefix(step.used);
        if (step.progress == Progress::more) continue;
        if (step.progress == Progress::refused) {
            why_ = fmt::format("answer of {}: {}", connection_->server().text(), http::message(reader_.fault()));
            co_return Ended::failed;
        }
        if (reader_.head().interim()) {
            reader_.reset();
            continue;
        }
        if (reader_.head().status == 101) {  // never asked for
            why_ = fmt::format("answer of {}: a change of protocol", connection_->server().text());
            co_return Ended::failed;
        }
        body_.start(reader_.head().framing);
        co_return Ended::well;
    }
}

Task<Ended> Exchange::next(std::string_view& data) {
    data = {};
    while (body_.progress() == Progress::more) {
        if (left_.empty()) {
            const Ended ended = co_await fill();
            if (closed_ && body_.close() == Progress::done) break;
            if (ended != Ended::well) co_return ended;
        }
        const http::BodyStep step = body_.feed(left_);
        left_.remove_prefix(step.used);
        data = step.data;
        if (!data.empty()) co_return Ended::well;
    }
    if (body_.progress() == Progress::done) co_return Ended::well;
    why_ = fmt::format("answer of {}: {}", connection_->server().text(), http::message(body_.fault()));
    co_return Ended::failed;
}

Task<Ended> Exchange::read_body(std::string& into, std::size_t bytes_max) {
    while (true) {
        std::string_view data;
        const Ended ended = co_await next(data);
        if (ended != Ended::well) co_return ended;
        into.append(data);
        if (complete() || into.size() > bytes_max) co_return Ended::well;
    }
}

void Exchange::finish() {
    if (complete() && left_.empty() && !cut_ && reader_.head().keep_alive &&
        (connection_->stream.tls() == nullptr || connection_->quiet()))
        pool_->give_back(std::move(connection_));
}

}  // namespace semel::gateway
