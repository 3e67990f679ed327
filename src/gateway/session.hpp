// A client's connection: reads requests one after the other, decides by which way each is answered, and answers. What needs
// no ledger is passed through here; what has a key goes to keyed.hpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/exchange.hpp"
#include "gateway/net.hpp"
#include "gateway/worker.hpp"
#include "http/body.hpp"
#include "http/problem.hpp"
#include "http/request.hpp"
#include "http/writer.hpp"

namespace semel::gateway {

class Session : public std::enable_shared_from_this<Session> {
public:
    static constexpr std::size_t buffer_bytes = 8 * 1024;
    /// A body up to this size is read before the upstream is asked, so that one that is malformed is never seen there.
    static constexpr std::size_t pass_buffer_bytes = 64 * 1024;

    /// `tls` is what the stream refers to, if it is encrypted.
    Session(Worker& worker, Stream stream, std::shared_ptr<asio::ssl::context> tls);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Serves until either side closes.
    Task<> run();
    /// No further request is taken; one that is being answered is finished.
    void drain();
    /// Ends whatever is going on.
    void cut();

    // ---- for whoever answers a request of this connection

    [[nodiscard]] const http::RequestHead& head() const { return reader_->head(); }
    [[nodiscard]] const std::string& peer() const { return peer_; }
    [[nodiscard]] std::optional<std::string_view> certificate_subject() const;

    /// Whether the connection can go on after this answer.
    [[nodiscard]] bool goes_on() const;
    [[nodiscard]] http::HeadWriter::Persistence persistence() const;
    /// The framing of an answer with a body like `framing`, for this client.
    [[nodiscard]] http::Framing framing_for_client(const http::Framing& framing) const;

    /// False: the client is gone. It then stays gone, and further writes do nothing.
    Task<bool> write(std::string_view first, std::string_view second = {});
    [[nodiscard]] bool client_gone() const { return gone_; }
    /// Answers with a problem document. The result is whether the connection goes on.
    Task<bool> answer(http::Problem problem, http::ProblemDetails details);
    Task<bool> answer(http::Problem problem, std::string_view detail = {});
    /// Answers what cannot be read, or is too large; the connection ends.
    Task<bool> refuse(http::Fault fault);

    /// Whether a field of the client may go on at all: nothing that speaks in our name or in a trusted peer's.
    [[nodiscard]] bool keeps(const http::Field& field, const Site& site) const;
    /// X-Forwarded-For, -Proto and -Host.
    void write_forwarded(http::HeadWriter& writer);

    /// Passes the request through; the body was read already, as far as `body_` holds it.
    Task<bool> pass(std::shared_ptr<const LocalSite> local, const RouteState& state);

private:
    friend class KeyedRequest;
    enum class Read : std::uint8_t { done, closed };

    Task<bool> shake_hands();
    Task<Read> read_head();
    Task<bool> handle();
    /// Reads the body up to `bytes_max`. On trouble the client was answered, and false is returned.
    enum class Body : std::uint8_t { whole, partial, answered };
    Task<Body> read_body(std::size_t bytes_max, bool partial_is_fine, Duration whole_within);
    Task<bool> fill();
    Task<bool> say_continue();
    Task<bool> send_rest(Exchange& exchange, bool chunked);
    Task<bool> relay(Exchange& exchange, const RouteState& state);
    Task<> linger();

    Worker& worker_;
    std::shared_ptr<asio::ssl::context> tls_;
    Stream stream_;
    Deadline deadline_;
    std::string buffer_;
    std::string_view left_;  // of buffer_: read and not yet used
    std::optional<http::RequestReader> reader_;
    http::BodyReader body_reader_;
    std::string body_;
    std::string out_;
    std::string peer_;
    std::optional<std::string> subject_;
    bool idle_ = true;         // between two requests
    bool body_begun_ = false;  // `body_` holds a part of it
    bool body_read_ = false;   // `body_` holds all of it
    bool must_close_ = false;  // the request was not read to its end
    bool gone_ = false;
};

}  // namespace semel::gateway
