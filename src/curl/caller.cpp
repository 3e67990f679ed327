#include "curl/caller.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <string_view>

#include "base/assert.hpp"
#include "http/fields.hpp"

namespace semel {
namespace {

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
class HttpCaller::Connection {
public:
    Connection() : handle_(curl_easy_init()) { SEMEL_ASSERT(handle_ != nullptr, "libcurl has a handle"); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { curl_easy_cleanup(handle_); }

    HttpEnd perform(const HttpRequest& request, const HttpCallOptions& options, const std::stop_token& stop) {
        curl_easy_reset(handle_);
        transfer_ = {.answer_bytes_max = options.answer_bytes_max, .stop = stop};
        HeaderList headers;
        set_up(options);
        set_request(request, headers);
        return ended(curl_easy_perform(handle_));
    }

private:
    struct Transfer {
        std::size_t answer_bytes_max = 0;
        std::stop_token stop{};
        int requests = 0;            // that libcurl was about to write
        bool head_whole = false;     // an answer that ends inside its head is one for libcurl
        std::size_t head_bytes = 0;  // of all heads, interim ones included
        HttpAnswer answer{};
    };

    template <class Value>
    void set(CURLoption option, Value value) {
        const CURLcode done = curl_easy_setopt(handle_, option, value);
        SEMEL_ASSERT(done == CURLE_OK, "libcurl knows the option");
    }

    void set_up(const HttpCallOptions& options) {
        set(CURLOPT_NOSIGNAL, 1L);
        set(CURLOPT_QUICK_EXIT, 1L);  // does not wait, beyond the timeout, for the thread that looks up a name
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
        if (!transfer_.stop.stop_possible()) return;
        set(CURLOPT_NOPROGRESS, 0L);
        set(CURLOPT_XFERINFOFUNCTION, &on_progress);
        set(CURLOPT_XFERINFODATA, &transfer_);
    }

    void set_request(const HttpRequest& request, HeaderList& headers) {
        SEMEL_ASSERT(request.method != "HEAD" && request.method != "CONNECT", "a method whose answer has a body");
        set(CURLOPT_URL, request.url.c_str());
        set(CURLOPT_POST, 1L);
        set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        set(CURLOPT_POSTFIELDS, request.body.c_str());
        set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
        bool typed = false;
        bool named = false;
        for (const auto& [name, value] : request.fields) {
            // libcurl takes "Name:" for a header to leave out, and "Name;" for an empty one.
            headers.add(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
            typed = typed || http::same_name(name, "Content-Type");
            named = named || http::same_name(name, "User-Agent");
        }
        headers.add("Expect:");
        if (!named) headers.add("User-Agent: semel");
        if (!typed) headers.add("Content-Type:");
        set(CURLOPT_HTTPHEADER, headers.get());
    }

    // A second time within one transfer, the first request may have been executed.
    static int before_request(void* data, char* /*peer*/, char* /*local*/, int /*peer_port*/, int /*local_port*/) {
        return static_cast<Transfer*>(data)->requests++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
    }

    static int on_progress(void* data, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
        return static_cast<Transfer*>(data)->stop.stop_requested() ? 1 : 0;
    }

    static std::size_t on_header(const char* bytes, std::size_t /*one*/, std::size_t size, void* data) {
        auto& transfer = *static_cast<Transfer*>(data);
        const std::string_view sent(bytes, size);
        const std::string_view line = sent.substr(0, sent.find_first_of("\r\n"));
        transfer.head_bytes += size;
        if (transfer.head_bytes > answer_head_bytes_max) return 0;
        if (line.starts_with("HTTP/")) {  // after an interim answer the real one
            transfer.head_whole = false;
            transfer.answer.fields.clear();
        }
        if (transfer.head_whole) return size;  // a trailer
        transfer.head_whole = line.empty();
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) return size;
        const std::string_view value = http::trimmed(line.substr(colon + 1));
        transfer.answer.fields.push_back({std::string(line.substr(0, colon)), std::string(value)});
        return size;
    }

    static std::size_t on_body(const char* bytes, std::size_t /*one*/, std::size_t size, void* data) {
        auto& transfer = *static_cast<Transfer*>(data);
        const std::size_t kept = std::min(size, transfer.answer_bytes_max - transfer.answer.body.size());
        transfer.answer.body.append(bytes, kept);
        transfer.answer.whole = transfer.answer.whole && kept == size;
        return size;
    }

    HttpEnd ended(CURLcode code) {
        using Why = HttpNoAnswer::Why;
        if (code == CURLE_OK && !transfer_.head_whole) code = CURLE_RECV_ERROR;
        if (code != CURLE_OK && transfer_.requests == 0) return HttpNotSent{reason(code)};
        if (code == CURLE_OPERATION_TIMEDOUT) return HttpNoAnswer{Why::timeout, reason(code)};
        if (code == CURLE_ABORTED_BY_CALLBACK && transfer_.requests == 1)
            return HttpNoAnswer{Why::stopped, reason(code)};
        if (code != CURLE_OK) return HttpNoAnswer{Why::broken, reason(code)};
        long status = 0;
        curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
        transfer_.answer.status = static_cast<int>(status);
        return std::move(transfer_.answer);
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

HttpCaller::HttpCaller(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
HttpCaller::HttpCaller(HttpCaller&&) noexcept = default;
HttpCaller& HttpCaller::operator=(HttpCaller&&) noexcept = default;
HttpCaller::~HttpCaller() = default;

Result<HttpCaller> HttpCaller::open(const TlsFiles& tls) {
    start_curl();
    for (const auto& [setting, path] : {std::pair<std::string_view, const std::string*>{"tls.ca", &tls.ca},
                                        {"tls.certificate", &tls.certificate},
                                        {"tls.key", &tls.key}})
        if (!path->empty() && access(path->c_str(), R_OK) != 0)
            return Failure{Code::invalid, fmt::format("{}: {} cannot be read", setting, *path)};
    return HttpCaller(std::make_unique<Connection>());
}

HttpEnd HttpCaller::call(const HttpRequest& request, const HttpCallOptions& options, const std::stop_token& stop) {
    return connection_->perform(request, options, stop);
}

}  // namespace semel
