#include "gateway/session.hpp"

#include <fmt/format.h>
#include <openssl/x509.h>

#include "gateway/keyed.hpp"

namespace semel::gateway {

using http::Framing;
using http::Method;
using http::Problem;
using http::ProblemDetails;
using http::Progress;

namespace {

constexpr Duration linger_for = seconds{1};
constexpr std::size_t linger_bytes_max = 256 * 1024;

http::HeadLimits head_limits(const Limits& limits) {
    return {.head_bytes_max = limits.head_bytes_max,
            .target_bytes_max = limits.target_bytes_max,
            .field_bytes_max = limits.field_bytes_max,
            .fields_max = limits.fields_max};
}

/// Whether asking again can do no harm, whatever became of the first try.
bool is_safe(Method method) { return method == Method::get || method == Method::head || method == Method::options; }

std::string subject_of(SSL* tls) {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(tls), &X509_free);
    if (!certificate) return {};
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), &BIO_free_all);
    X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate.get()), 0, XN_FLAG_RFC2253);
    char* text = nullptr;
    const long size = BIO_get_mem_data(out.get(), &text);
    return {text, static_cast<std::size_t>(size)};
}

}  // namespace

Session::Session(Worker& worker, Stream stream, std::shared_ptr<asio::ssl::context> tls)
    : worker_(worker),
      tls_(std::move(tls)),
      stream_(std::move(stream)),
      deadline_(worker.deadlines, [this] { stream_.cancel(); }),
      buffer_(buffer_bytes, '\0') {
    worker_.sessions_.insert(this);
    Error error;
    const auto endpoint = stream_.socket().remote_endpoint(error);
    if (!error) {
        auto address = endpoint.address();
        if (address.is_v6() && address.to_v6().is_v4_mapped())
            address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
        peer_ = address.to_string();
    }
    reader_.emplace(head_limits(worker_.site()->site->config().limits));
}

Session::~Session() { worker_.ended(*this); }

void Session::drain() {
    if (idle_) stream_.cancel();
}

void Session::cut() {
    gone_ = true;
    Error ignored;
    // A reset, not an end: an answer until the connection's end would look whole.
    stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
    stream_.close();
}

std::optional<std::string_view> Session::certificate_subject() const {
    if (!subject_) return std::nullopt;
    return std::string_view(*subject_);
}

Task<> Session::run() {
    const auto alive = shared_from_this();
    if (stream_.tls() != nullptr && !co_await shake_hands()) co_return;
    while (!worker_.draining()) {
        if (co_await read_head() == Read::closed) break;
        const bool go_on = co_await handle();
        if (!go_on) break;
        reader_->reset();
    }
    co_await linger();
    stream_.close();
}

Task<bool> Session::shake_hands() {
    deadline_.arm(worker_.site()->site->config().limits.head_timeout);
    const auto [error] = co_await stream_.tls()->async_handshake(asio::ssl::stream_base::server, as_tuple);
    deadline_.disarm();
    if (error) co_return false;
    if (std::string subject = subject_of(stream_.tls()->native_handle()); !subject.empty())
        subject_ = std::move(subject);
    co_return true;
}

// ---- reading ---------------------------------------------------------------------------------------------------

Task<bool> Session::fill() {
    const auto [error, got] = co_await stream_.read_some(asio::buffer(buffer_.data(), buffer_.size()));
    if (error) co_return false;
    left_ = std::string_view(buffer_.data(), got);
    co_return true;
}

Task<Session::Read> Session::read_head() {
    const Limits limits = worker_.site()->site->config().limits;  // a copy: a reload may come while this waits
    idle_ = left_.empty();
    must_close_ = false;
    body_begun_ = false;
    body_read_ = false;
    body_.clear();
    if (body_.capacity() > pass_buffer_bytes) body_.shrink_to_fit();
    if (out_.capacity() > pass_buffer_bytes) out_ = {};
    deadline_.arm(idle_ ? limits.idle_timeout : limits.head_timeout);
    while (true) {
        if (left_.empty() && !co_await fill()) {
            const bool late = deadline_.expired() && reader_->head_bytes() > 0;
            deadline_.disarm();
            if (!late) {
                gone_ = true;
                co_return Read::closed;
            }
            must_close_ = true;
            idle_ = false;
            co_await answer(Problem::request_timeout, "the head did not arrive in time (limits.head_timeout)");
            co_return Read::closed;
        }
        if (idle_) {
            idle_ = false;
            deadline_.arm(limits.head_timeout);
        }
        const http::Step step = reader_->feed(left_);
        left_.remove_prefix(step.used);
        if (step.progress == Progress::more) continue;
        deadline_.disarm();
        if (step.progress == Progress::done) {
            body_reader_.start(Framing::none());
            co_return Read::done;
        }
        co_await refuse(reader_->fault());
        co_return Read::closed;
    }
}

Task<Session::Body> Session::read_body(std::size_t bytes_max, bool partial_is_fine, Duration whole_within) {
    const Limits limits = worker_.site()->site->config().limits;  // a copy: a reload may come while this waits
    http::BodyLimits body_limits;
    body_limits.body_bytes_max = partial_is_fine ? limits.pass_bytes_max : bytes_max;
    body_begun_ = true;
    body_reader_.start(head().framing, body_limits);
    if (head().expect_continue && left_.empty() && body_reader_.progress() == Progress::more &&
        !co_await say_continue())
        co_return Body::answered;
    deadline_.arm(whole_within > Duration{0} ? whole_within : limits.body_timeout);
    while (body_reader_.progress() == Progress::more && body_.size() <= bytes_max) {
        if (left_.empty()) {
            if (whole_within <= Duration{0}) deadline_.arm(limits.body_timeout);
            if (!co_await fill()) {
                const bool late = deadline_.expired();
                deadline_.disarm();
                must_close_ = true;
                gone_ = !late;
                if (late)
                    co_await answer(Problem::request_timeout, "the body did not arrive in time (limits.body_timeout)");
                co_return Body::answered;
            }
        }
        const http::BodyStep step = body_reader_.feed(left_);
        left_.remove_prefix(step.used);
        body_.append(step.data);
    }
    deadline_.disarm();
    body_read_ = body_reader_.progress() == Progress::done;
    if (body_read_) co_return Body::whole;
    if (body_reader_.progress() == Progress::more && partial_is_fine) co_return Body::partial;
    const bool refused = body_reader_.progress() == Progress::refused;
    co_await refuse(refused ? body_reader_.fault() : http::Fault::body_too_large);
    co_return Body::answered;
}

Task<bool> Session::say_continue() { co_return co_await write("HTTP/1.1 100 Continue\r\n\r\n"); }

// ---- answering -------------------------------------------------------------------------------------------------

bool Session::goes_on() const {
    return !must_close_ && !gone_ && !worker_.draining() && reader_->progress() == Progress::done &&
           head().keep_alive && body_reader_.progress() == Progress::done;
}

http::HeadWriter::Persistence Session::persistence() const {
    using P = http::HeadWriter::Persistence;
    if (!goes_on()) return P::close;
    return head().version == http::Version::http_1_0 ? P::keep_alive : P::unsaid;
}

Framing Session::framing_for_client(const Framing& framing) const {
    if (framing.kind == Framing::Kind::chunked || framing.kind == Framing::Kind::until_close)
        return head().version == http::Version::http_1_0 ? Framing::until_close() : Framing::chunked();
    return framing;
}

Task<bool> Session::write(std::string_view first, std::string_view second) {
    if (gone_) co_return false;
    deadline_.arm(worker_.site()->site->config().limits.write_timeout);
    const auto [error, sent] = co_await stream_.write(first, second);
    deadline_.disarm();
    if (error) gone_ = true;
    co_return !gone_;
}

Task<bool> Session::answer(Problem problem, std::string_view detail) {
    ProblemDetails details;
    details.detail = detail;
    return answer(problem, details);
}

Task<bool> Session::refuse(http::Fault fault) {
    must_close_ = true;
    ProblemDetails details;
    details.detail = http::message(fault);
    if (fault == http::Fault::body_too_large) {
        details.detail =
            "the body is larger than allowed (request_bytes_max of a keyed route, else limits.pass_bytes_max)";
        co_return co_await answer(Problem::request_too_large, details);
    }
    worker_.shared.metrics.malformed->Increment();
    details.status = http::status(fault);
    co_return co_await answer(Problem::request_malformed, details);
}

Task<bool> Session::answer(Problem problem, ProblemDetails details) {
    const bool head_only = reader_->progress() == Progress::done && head().method == Method::head;
    const http::ProblemAnswer told = http::answer(problem, details);
    const auto persist = persistence();
    out_.clear();
    http::HeadWriter writer(out_);
    writer.status_line(told.status).field("Content-Type", http::problem_content_type);
    if (!told.retry_after.empty()) writer.field("Retry-After", told.retry_after);
    if (writer.end(Framing::of_length(told.body.size()), persist) != http::Fault::none) co_return false;
    if (!head_only) out_ += told.body;
    co_await write(out_);
    co_return !gone_ && persist != http::HeadWriter::Persistence::close;
}

/// Lets the client read the last answer before the connection is cut: data it still sends would make the kernel reset it.
Task<> Session::linger() {
    if (gone_) co_return;
    deadline_.arm(linger_for);
    Error ignored;
    if (stream_.tls() != nullptr)
        co_await stream_.tls()->async_shutdown(as_tuple);
    else
        stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    if (!must_close_ || stream_.tls() != nullptr) co_return;
    std::size_t seen = 0;
    while (seen < linger_bytes_max && co_await fill()) seen += left_.size();
    deadline_.disarm();
}

// ---- a request -------------------------------------------------------------------------------------------------

Task<bool> Session::handle() {
    // A copy: a reload must not change the rules under a request.
    const std::shared_ptr<const LocalSite> local = worker_.site();
    const Site& site = *local->site;
    const http::RequestHead& request = head();
    must_close_ = !request.framing.empty();  // until the body was read
    if (request.method == Method::connect)
        co_return co_await answer(Problem::upgrade_refused, "CONNECT is not served here");
    const Route* const route = site.table().find(request.method_text, request.target.path);
    const bool keyed = route != nullptr && route->key_for(request.method_text) != KeyUse::ignored;
    if (!keyed) {
        // What an upstream that normalises paths would take for a keyed route must not pass it by.
        if (site.config().mode != Mode::observe && !http::is_plain_path(request.target.path) &&
            site.table().could_match_normalised(request.method_text, request.target.path)) {
            site.unlisted().metrics->count(Answered::refused);
            must_close_ = true;
            co_return co_await answer(Problem::request_malformed,
                                      "the path has empty, dot or needlessly encoded segments: write it plainly");
        }
        co_return co_await pass(local, route == nullptr ? site.unlisted() : site.state(*route));
    }
    const RouteState& state = site.state(*route);
    KeyedRequest keyed_request(*this, worker_, local, state);
    co_return co_await keyed_request.run();
}

// ---- passing through -------------------------------------------------------------------------------------------

void Session::write_forwarded(http::HeadWriter& writer) {
    std::string chain;
    for (const http::Field& field : head().fields)
        if (http::same_name(field.name, "X-Forwarded-For")) chain.append(chain.empty() ? "" : ", ").append(field.value);
    chain.append(chain.empty() ? "" : ", ").append(peer_);
    writer.field("X-Forwarded-For", chain);
    writer.field("X-Forwarded-Proto", stream_.tls() != nullptr ? "https" : "http");
    if (!head().host.empty()) writer.field("X-Forwarded-Host", head().host);
}

bool Session::keeps(const http::Field& field, const Site& site) const {
    if (http::variable_starts_with(field.name, "Semel-")) return false;
    if (http::variable_starts_with(field.name, "X-Forwarded-"))
        if (http::same_variable(field.name, "X-Forwarded-For") ||
            http::same_variable(field.name, "X-Forwarded-Proto") || http::same_variable(field.name, "X-Forwarded-Host"))
            return false;
    if (http::same_variable(field.name, "Host")) return false;
    const TenantReader& tenants = site.tenants();
    return !http::same_variable(field.name, tenants.peer_header()) || tenants.peer_trusted(peer_);
}

Task<bool> Session::pass(std::shared_ptr<const LocalSite> local, const RouteState& state) {
    const Site& site = *local->site;
    if (!body_begun_ && co_await read_body(pass_buffer_bytes, true, Duration{0}) == Body::answered) co_return false;
    const bool whole = body_read_;
    must_close_ = !whole;
    const bool chunked = !whole && head().framing.kind == Framing::Kind::chunked;
    Framing framing =
        whole ? (head().framing.kind == Framing::Kind::none ? Framing::none() : Framing::of_length(body_.size()))
              : head().framing;
    std::string request;
    request.reserve(reader_->head_bytes() + 256);
    http::HeadWriter writer(request);
    writer.request_line(head().method_text, http::origin_form(head().target));
    writer.field("Host", head().host.empty() ? std::string_view("localhost") : head().host);
    writer.forward(head().fields, head().connection, [&](const http::Field& field) { return keeps(field, site); });
    write_forwarded(writer);
    if (writer.end(framing) != http::Fault::none) {
        must_close_ = true;
        co_return co_await answer(Problem::request_malformed, "the request can not be forwarded");
    }
    if (chunked) {
        std::string first;
        http::write_chunk(first, body_);
        body_.swap(first);
    }
    for (int tries = 1;; ++tries) {
        Exchange exchange(local->pools[state.upstream], head().method);
        const auto began = std::chrono::steady_clock::now();
        Ended ended = co_await exchange.connect();
        if (ended == Ended::well) ended = co_await exchange.send(request, body_);
        if (ended == Ended::well && !whole) {
            if (!co_await send_rest(exchange, chunked)) co_return false;
            must_close_ = body_reader_.progress() != Progress::done;
            if (must_close_) exchange.cut_short();
        }
        if (ended == Ended::well) ended = co_await exchange.read_head(Duration{0});
        if (ended == Ended::well) {
            const bool go_on = co_await relay(exchange, state);
            state.metrics->upstream_seconds->Observe(
                std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
            co_return go_on;
        }
        // A kept connection may have been closed just now: a request that can do no harm is sent again, once.
        if (tries == 1 && whole && exchange.reused() && !exchange.answering() && ended == Ended::failed &&
            is_safe(head().method))
            continue;
        state.metrics->count(Answered::upstream_failed);
        const Problem problem = ended == Ended::not_sent    ? Problem::upstream_unreachable
                                : ended == Ended::timed_out ? Problem::upstream_timeout
                                                            : Problem::upstream_failed;
        worker_.log.write(LogLine(Log::Level::warning, "upstream_failed")
                              .text("route", state.route == nullptr ? "-" : state.route->name)
                              .text("why", exchange.why()));
        co_return co_await answer(problem);
    }
}

/// The rest of a body that is too large to be held, as it comes.
Task<bool> Session::send_rest(Exchange& exchange, bool chunked) {
    const Limits limits = worker_.site()->site->config().limits;  // a copy: a reload may come while this waits
    std::string piece;
    while (body_reader_.progress() == Progress::more) {
        if (left_.empty()) {
            deadline_.arm(limits.body_timeout);
            const bool got = co_await fill();
            deadline_.disarm();
            if (!got) {
                gone_ = true;  // the upstream sees a request cut short, and so refuses it
                co_return false;
            }
        }
        const http::BodyStep step = body_reader_.feed(left_);
        left_.remove_prefix(step.used);
        if (step.progress == Progress::refused) {
            co_await refuse(body_reader_.fault());
            co_return false;
        }
        piece.clear();
        if (chunked)
            http::write_chunk(piece, step.data);
        else
            piece.append(step.data);
        if (chunked && step.progress == Progress::done) piece += http::last_chunk;
        if (piece.empty()) continue;
        // An upstream that has answered before the end may have stopped reading: its answer is looked for all the same.
        if (co_await exchange.send_more(piece) != Ended::well) break;
    }
    co_return true;
}

Task<bool> Session::relay(Exchange& exchange, const RouteState& state) {
    const http::ResponseHead& response = exchange.head();
    Framing framing = framing_for_client(response.framing);
    // HEAD and 304 announce a length and send nothing.
    const bool bodiless = response.framing.kind == Framing::Kind::none;
    if (bodiless && response.content_length) framing = Framing::of_length(*response.content_length);
    const bool chunked = framing.kind == Framing::Kind::chunked;
    if (framing.kind == Framing::Kind::until_close) must_close_ = true;
    std::string head_bytes;
    head_bytes.reserve(512);
    http::HeadWriter writer(head_bytes);
    writer.status_line(response.status, response.reason).forward(response.fields, response.connection);
    if (writer.end(framing, persistence()) != http::Fault::none) {
        state.metrics->count(Answered::upstream_failed);
        co_return co_await answer(Problem::upstream_failed, "its answer can not be forwarded");
    }
    state.metrics->count(Answered::passed);
    bool first = true;
    while (true) {
        std::string_view data;
        const Ended ended = co_await exchange.next(data);
        if (ended != Ended::well) {
            must_close_ = true;
            if (first) co_return co_await answer(Problem::upstream_failed);
            cut();  // half an answer: the client must not take it for a whole one
            co_return false;
        }
        const bool last = exchange.complete();
        if (chunked) {
            out_.clear();
            if (first) out_ += head_bytes;
            http::write_chunk(out_, data);
            if (last) out_ += http::last_chunk;
            if (!out_.empty() && !co_await write(out_)) co_return false;
        } else if (first) {
            if (!co_await write(head_bytes, data)) co_return false;
        } else if (!data.empty()) {
            if (!co_await write(data)) co_return false;
        }
        first = false;
        if (last) break;
    }
    exchange.finish();
    co_return goes_on();
}

}  // namespace semel::gateway
