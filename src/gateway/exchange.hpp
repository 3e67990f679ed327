// One request to an upstream and its answer. Says how it ended in the terms that matter to the ledger: whether a byte was
// sent, and whether the answer is whole.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/upstream.hpp"
#include "http/body.hpp"
#include "http/response.hpp"

namespace semel::gateway {

enum class Ended : std::uint8_t {
    well,       ///< what was asked for is there
    not_sent,   ///< no connection: not one byte was written
    failed,     ///< closed, reset or not HTTP, after something was sent
    timed_out,  ///< as failed: the time was up
};

class Exchange {
public:
    Exchange(std::shared_ptr<UpstreamPool> pool, http::Method method) : pool_(std::move(pool)), reader_(method) {}
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    /// Gets a connection; nothing is sent.
    Task<Ended> connect();
    /// Writes, after connect().
    Task<Ended> send(std::string_view head, std::string_view body);
    /// More of the body, after send().
    Task<Ended> send_more(std::string_view bytes);

    /// Reads the answer's head; interim ones are passed over. The whole answer has to be there `within` this time; zero:
    /// every single read has.
    Task<Ended> read_head(Duration within);
    [[nodiscard]] const http::ResponseHead& head() const { return reader_.head(); }

    /// From here on every single read has its time, not the whole answer: for one that is passed on as it comes.
    void limit_each_read() { whole_limit_ = false; }

    /// The next bytes of the body: a view that lives until the next call. Empty and `well`: the body is complete.
    Task<Ended> next(std::string_view& data);
    /// Appends the body to `into`, up to `bytes_max` and what the last read brought beyond: then complete() is false.
    Task<Ended> read_body(std::string& into, std::size_t bytes_max);
    [[nodiscard]] bool complete() const { return body_.progress() == http::Progress::done; }

    /// The answer was read to its end: the connection serves the next request, if it can. One to which not all of the
    /// request was written never does: the rest of it would be the next one's beginning.
    void finish();
    /// Not all of the request will be written.
    void cut_short() { cut_ = true; }
    /// After connect(), instead of send(): the connection was not used.
    void give_back() { pool_->give_back(std::move(connection_)); }

    /// Whether the connection had served before, so that its server may have closed it without having seen this request.
    [[nodiscard]] bool reused() const { return connection_ && connection_->reused; }
    /// Whether a byte of an answer arrived.
    [[nodiscard]] bool answering() const { return answering_; }
    /// Why it did not end well, for logs and for the caller's own eyes.
    [[nodiscard]] const std::string& why() const { return why_; }

private:
    Ended fail(std::string_view doing, const Error& error);
    Task<Ended> fill();

    std::shared_ptr<UpstreamPool> pool_;
    std::unique_ptr<UpstreamConnection> connection_;
    http::ResponseReader reader_;
    http::BodyReader body_;
    std::string_view left_;  // of the connection's buffer: read and not yet used
    bool whole_limit_ = false;
    bool answering_ = false;
    bool closed_ = false;  // by the server, in good order
    bool cut_ = false;     // not all of the request was written
    std::string why_;
};

}  // namespace semel::gateway
