#include "relay/endpoint.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <string_view>

#include "base/assert.hpp"
#include "http/fields.hpp"

namespace semel::relay {
namespace {

using How = DeliveryEnd::How;

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }

long milliseconds_of(Duration duration) {
    const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    return static_cast<long>(std::clamp<std::int64_t>(count, 1, 0x7fffffff));
}

// Once per process, and never undone: other users of libcurl may be there.
void start_curl() {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    SEMEL_ASSERT(started == CURLE_OK, "libcurl starts");
}

class HeaderList {
public:
    HeaderList() = default;
    HeaderList(const HeaderList&) = delete;
    HeaderList& operator=(const HeaderList&) = delete;
    ~HeaderList() { curl_slist_free_all(first_); }

    void add(const std::string& line) {
        curl_slist* const longer = curl_slist_append(first_, line.c_str());
        SEMEL_ASSERT(longer != nullptr, "memory for a header");
        first_ = longer;
    }
    [[nodiscard]] curl_slist* get() const { return first_; }

private:
    curl_slist* first_ = nullptr;
};

}  // namespace

// One easy handle: it keeps its connections from one transfer to the next.
class Endpoint::Connection {
public:
    Connection() : handle_(curl_easy_init()) { SEMEL_ASSERT(handle_ != nullptr, "libcurl has a handle"); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { curl_easy_cleanup(handle_); }

    Delivered perform(const EndpointOptions& options, const Request& request) {
        curl_easy_reset(handle_);
        transfer_ = {.answer_bytes_max = options.answer_bytes_max};
        HeaderList headers;
        set_up(options);
        set_request(request, headers);
        return ended(curl_easy_perform(handle_));
    }

private:
    struct Transfer {
        std::size_t answer_bytes_max = 0;
        int requests = 0;         // that libcurl was about to write
        bool head_whole = false;  // an answer that ends inside its head is one for libcurl
        bool replayed = false;
        std::string content_type{};
        std::string body{};
        bool whole = true;
    };

    template <class Value>
    void set(CURLoption option, Value value) {
        const CURLcode done = curl_easy_setopt(handle_, option, value);
        SEMEL_ASSERT(done == CURLE_OK, "libcurl knows the option");
    }

    void set_up(const EndpointOptions& options) {
        set(CURLOPT_NOSIGNAL, 1L);
        set(CURLOPT_ERRORBUFFER, error_);
        error_[0] = '\0';
        set(CURLOPT_PROTOCOLS_STR, "http,https");
        set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
        set(CURLOPT_FOLLOWLOCATION, 0L);
        set(CURLOPT_PROXY, "");
        set(CURLOPT_PATH_AS_IS, 1L);
        set(CURLOPT_TIMEOUT_MS, milliseconds_of(options.timeout));
        set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds_of(options.connect_timeout));
        set(CURLOPT_MAXAGE_CONN, std::max(1L, milliseconds_of(options.idle_max) / 1000));
        set(CURLOPT_MAXCONNECTS, 1L);
        set(CURLOPT_TCP_NODELAY, 1L);
        set(CURLOPT_SSL_VERIFYPEER, 1L);
        set(CURLOPT_SSL_VERIFYHOST, 2L);
        set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
        if (!options.tls.ca.empty()) set(CURLOPT_CAINFO, options.tls.ca.c_str());
        if (!options.tls.certificate.empty()) set(CURLOPT_SSLCERT, options.tls.certificate.c_str());
        if (!options.tls.key.empty()) set(CURLOPT_SSLKEY, options.tls.key.c_str());
        set(CURLOPT_PREREQFUNCTION, &before_request);
        set(CURLOPT_PREREQDATA, &transfer_);
        set(CURLOPT_HEADERFUNCTION, &on_header);
        set(CURLOPT_HEADERDATA, &transfer_);
        set(CURLOPT_WRITEFUNCTION, &on_body);
        set(CURLOPT_WRITEDATA, &transfer_);
    }

    void set_request(const Request& request, HeaderList& headers) {
        set(CURLOPT_URL, request.url.c_str());
        set(CURLOPT_POST, 1L);
        set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        set(CURLOPT_POSTFIELDS, request.body.c_str());
        set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
        bool typed = false;
        for (const auto& [name, value] : request.headers) {
            // libcurl takes "Name:" for a header to leave out, and "Name;" for an empty one.
            headers.add(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
            typed = typed || http::same_name(name, "Content-Type");
        }
        headers.add("Expect:");
        headers.add("User-Agent: semel");
        if (!typed) headers.add("Content-Type:");
        set(CURLOPT_HTTPHEADER, headers.get());
    }

    // A second time within one transfer, the first request may have been executed.
    static int before_request(void* data, char* /*peer*/, char* /*local*/, int /*peer_port*/, int /*local_port*/) {
        return static_cast<Transfer*>(data)->requests++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
    }

    static std::size_t on_header(const char* bytes, std::size_t /*one*/, std::size_t size, void* data) {
        auto& transfer = *static_cast<Transfer*>(data);
        const std::string_view sent(bytes, size);
        const std::string_view line = sent.substr(0, sent.find_first_of("\r\n"));
        if (line.starts_with("HTTP/")) {  // after an interim answer the real one
            transfer.head_whole = false;
            transfer.replayed = false;
            transfer.content_type.clear();
        }
        if (transfer.head_whole) return size;  // a trailer
        transfer.head_whole = line.empty();
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) return size;
        const std::string_view name = line.substr(0, colon);
        const std::string_view value = http::trimmed(line.substr(colon + 1));
        if (http::same_name(name, "Idempotent-Replayed"))
            transfer.replayed = http::same_name(value, "true") || value == "?1";
        if (http::same_name(name, "Content-Type")) transfer.content_type = value;
        return size;
    }

    static std::size_t on_body(const char* bytes, std::size_t /*one*/, std::size_t size, void* data) {
        auto& transfer = *static_cast<Transfer*>(data);
        const std::size_t kept = std::min(size, transfer.answer_bytes_max - transfer.body.size());
        transfer.body.append(bytes, kept);
        transfer.whole = transfer.whole && kept == size;
        return size;
    }

    Delivered ended(CURLcode code) {
        Delivered delivered;
        if (code == CURLE_OK && !transfer_.head_whole) code = CURLE_RECV_ERROR;
        if (code != CURLE_OK) {
            delivered.end.how = transfer_.requests == 0            ? How::not_sent
                                : code == CURLE_OPERATION_TIMEDOUT ? How::timeout
                                                                   : How::broken;
            delivered.end.reason = reason(code);
            return delivered;
        }
        long status = 0;
        curl_off_t retry_after = 0;
        curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(handle_, CURLINFO_RETRY_AFTER, &retry_after);
        delivered.end.how = How::answered;
        delivered.end.status = static_cast<int>(status);
        delivered.end.replayed = transfer_.replayed;
        if (retry_after > 0) delivered.end.retry_after = std::chrono::seconds{std::min<curl_off_t>(retry_after, 86400)};
        delivered.content_type = std::move(transfer_.content_type);
        delivered.body = std::move(transfer_.body);
        delivered.whole = transfer_.whole;
        if (delivered.whole) delivered.end.problem = read_problem(delivered.content_type, delivered.body);
        return delivered;
    }

    // libcurl's text names host and port, not the path or what was sent.
    std::string reason(CURLcode code) {
        const std::string_view detail = error_[0] == '\0' ? curl_easy_strerror(code) : error_;
        if (transfer_.requests > 1) return "the connection was closed before an answer";
        std::string text = transfer_.requests == 0 ? "not sent: " : "no answer: ";
        for (const char c : detail) text.push_back(c >= 0x20 && c < 0x7f ? c : '?');
        return text;
    }

    CURL* handle_;
    Transfer transfer_{};
    char error_[CURL_ERROR_SIZE] = {};
};

Endpoint::Endpoint(EndpointOptions options, RequestMaker maker, std::unique_ptr<Connection> connection)
    : options_(std::move(options)), maker_(std::move(maker)), connection_(std::move(connection)) {}
Endpoint::Endpoint(Endpoint&&) noexcept = default;
Endpoint& Endpoint::operator=(Endpoint&&) noexcept = default;
Endpoint::~Endpoint() = default;

Result<Endpoint> Endpoint::open(EndpointOptions options) {
    start_curl();
    auto maker = RequestMaker::make(options.request);
    if (!maker) return std::move(maker).failure();
    for (const auto& [setting, path] : {std::pair<std::string_view, const std::string*>{"to.tls.ca", &options.tls.ca},
                                        {"to.tls.certificate", &options.tls.certificate},
                                        {"to.tls.key", &options.tls.key}})
        if (!path->empty() && access(path->c_str(), R_OK) != 0)
            return refused(fmt::format("{}: {} cannot be read", setting, *path));
    return Endpoint(std::move(options), std::move(*maker), std::make_unique<Connection>());
}

Result<Delivered> Endpoint::deliver(const Parcel& parcel) {
    auto request = maker_.request(parcel);
    if (!request) return std::move(request).failure();
    return connection_->perform(options_, *request);
}

}  // namespace semel::relay
