#include "stores/postgres/wire.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace semel::postgres {
namespace {

void append_be(std::string& out, std::uint64_t value, int bytes) {
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

std::string one_line(const char* message) {
    std::string text = message == nullptr ? "" : message;
    std::ranges::replace(text, '\n', ' ');
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
}

}  // namespace

// ---- parameters ------------------------------------------------------------------------------------------------

void Params::add(std::uint32_t type, std::optional<std::string> bytes) {
    types_.push_back(type);
    values_.push_back(std::move(bytes));
}

Params& Params::int8(std::int64_t value) {
    std::string bytes;
    append_be(bytes, static_cast<std::uint64_t>(value), 8);
    add(20, std::move(bytes));
    return *this;
}
Params& Params::text(std::string_view value) {
    add(25, std::string(value));
    return *this;
}
Params& Params::bytea(std::string_view value) {
    add(17, std::string(value));
    return *this;
}
Params& Params::uuid(std::string_view bytes16) {
    add(2950, std::string(bytes16));
    return *this;
}

Params& Params::null() {
    add(0, std::nullopt);
    return *this;
}

void Params::Array::length(std::int32_t value) {
    ++count_;
    append_be(elements_, static_cast<std::uint32_t>(value), 4);
}

Params::Array& Params::Array::int8(const std::optional<std::int64_t>& value) {
    if (!value) {
        has_null_ = true;
        length(-1);
        return *this;
    }
    length(8);
    append_be(elements_, static_cast<std::uint64_t>(*value), 8);
    return *this;
}

Params::Array& Params::Array::int2(std::int16_t value) {
    length(2);
    append_be(elements_, static_cast<std::uint16_t>(value), 2);
    return *this;
}

Params::Array& Params::Array::bytes(std::string_view value) {
    length(static_cast<std::int32_t>(value.size()));
    elements_.append(value);
    return *this;
}

Params::Array& Params::Array::bytes(const std::optional<std::string>& value) {
    if (value) return bytes(std::string_view(*value));
    has_null_ = true;
    length(-1);
    return *this;
}

Params& Params::array(Array array) {
    std::string bytes;
    append_be(bytes, array.count_ == 0 ? 0 : 1, 4);  // dimensions
    append_be(bytes, array.has_null_ ? 1 : 0, 4);
    append_be(bytes, array.element_, 4);
    if (array.count_ > 0) {
        append_be(bytes, array.count_, 4);
        append_be(bytes, 1, 4);  // the first index
    }
    bytes += array.elements_;
    add(array.array_, std::move(bytes));
    return *this;
}

// ---- results ---------------------------------------------------------------------------------------------------

std::int64_t Rows::integer(int row, int column) const {
    const std::string_view value = bytes(row, column);
    std::uint64_t number = 0;
    for (unsigned char byte : value) number = number << 8 | byte;
    switch (value.size()) {
        case 2: return static_cast<std::int16_t>(number);
        case 4: return static_cast<std::int32_t>(number);
        default: return static_cast<std::int64_t>(number);
    }
}

std::int64_t Rows::affected() const {
    const std::string_view text = PQcmdTuples(result_.get());
    std::int64_t count = 0;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

Code code_of(const std::string& sqlstate) {
    const std::string_view state = sqlstate;
    if (state == "40001" || state == "40P01" || state == "55P03") return Code::contended;
    if (state == "53100" || state == "54000") return Code::exhausted;
    if (state == "XX001" || state == "XX002") return Code::corrupt;
    // Bad data, a violated constraint, a missing table or right: the same statement would fail again.
    if (state.starts_with("22") || state.starts_with("23") || state.starts_with("42") || state == "54001")
        return Code::invalid;
    return Code::unavailable;
}

// ---- the connection --------------------------------------------------------------------------------------------

std::string without_password(const std::string& uri) {
    const auto scheme = uri.find("://");
    const auto at = uri.find('@');
    if (scheme == std::string::npos) {
        const auto password = uri.find("password");
        return password == std::string::npos ? uri : "postgres";
    }
    std::string text = uri;
    if (at != std::string::npos) {
        const auto colon = uri.find(':', scheme + 3);
        if (colon != std::string::npos && colon < at) text.erase(colon, at - colon);
    }
    if (const auto query = text.find("password="); query != std::string::npos) {
        auto end = text.find('&', query);
        if (end == std::string::npos) end = text.size();
        text.replace(query, end - query, "password=***");
    }
    return text;
}

Result<Wire> Wire::connect(const std::string& uri, Duration connect_timeout) {
    const std::string seconds = std::to_string(std::max<std::int64_t>(2, connect_timeout / std::chrono::seconds{1}));
    // A peer that is gone without a word is noticed also by calls without a deadline; the URI may say otherwise.
    const char* names[] = {"keepalives_idle",
                           "keepalives_interval",
                           "keepalives_count",
                           "tcp_user_timeout",
                           "dbname",
                           "connect_timeout",
                           "fallback_application_name",
                           "client_encoding",
                           nullptr};
    const char* values[] = {"10", "5", "3", "25000", uri.c_str(), seconds.c_str(), "semel", "UTF8", nullptr};
    Wire wire;
    wire.connection_.reset(PQconnectdbParams(names, values, 1));
    if (PQstatus(wire.connection_.get()) != CONNECTION_OK)
        return Failure{Code::unavailable, fmt::format("connect to {}: {} (store)", without_password(uri),
                                                      one_line(PQerrorMessage(wire.connection_.get())))};
    PQsetnonblocking(wire.connection_.get(), 1);
    if (PQenterPipelineMode(wire.connection_.get()) != 1)
        return Failure{Code::unavailable, fmt::format("connect to {}: pipeline mode refused", without_password(uri))};
    wire.usable_ = true;
    if (auto found = wire.find_out_direct(connect_timeout); !found) return found.failure();
    return wire;
}

Status Wire::find_out_direct(Duration timeout) {
    send("select pg_backend_pid()");
    const auto answered = round_trip(timeout);
    if (const auto* error = std::get_if<WireError>(&answered))
        return Failure{code_of(error->sqlstate), fmt::format("connect: {} (store)", error->message)};
    direct_ = std::get<0>(answered)[0].integer(0, 0) == PQbackendPID(connection_.get());
    return Done{};
}

namespace {

/// The parameters as libpq takes them.
struct Bound {
    explicit Bound(const std::vector<std::optional<std::string>>& from) : formats(from.size(), 1) {
        for (const std::optional<std::string>& value : from) {
            values.push_back(value ? value->data() : nullptr);
            lengths.push_back(value ? static_cast<int>(value->size()) : 0);
        }
    }
    [[nodiscard]] int count() const { return static_cast<int>(values.size()); }
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
};

/// The same text has the same name: whoever finds a statement under it finds the right one.
std::string name_of(const char* sql) { return "semel_" + to_hex(first_half(sha256(sql))); }

}  // namespace

void Wire::send(const char* sql, const Params& params) {
    const Bound bound(params.values_);
    const int sent = PQsendQueryParams(connection_.get(), sql, bound.count(), params.types_.data(), bound.values.data(),
                                       bound.lengths.data(), bound.formats.data(), 1);
    if (sent != 1) send_failed_ = true;
    queued_.emplace_back();
}

void Wire::send_kept(const char* sql, const Params& params) {
    if (!direct_) return send(sql, params);
    const auto kept = std::ranges::find(kept_, sql, &Kept::sql);
    const std::string name = kept != kept_.end() ? kept->name : name_of(sql);
    const Bound bound(params.values_);
    // Not again within one round trip, where the server has yet to say that it did.
    const auto asked = [&] {
        return std::ranges::any_of(
            queued_, [&](const Queued& each) { return each.prepares != nullptr && each.prepares == sql; });
    };
    if (kept == kept_.end() && !asked()) {
        if (PQsendPrepare(connection_.get(), name.c_str(), sql, bound.count(), params.types_.data()) != 1)
            send_failed_ = true;
        queued_.push_back({sql});
    }
    const int sent = PQsendQueryPrepared(connection_.get(), name.c_str(), bound.count(), bound.values.data(),
                                         bound.lengths.data(), bound.formats.data(), 1);
    if (sent != 1) send_failed_ = true;
    queued_.emplace_back();
}

WireError Wire::lost(std::string_view what) {
    usable_ = false;
    return {"", fmt::format("{}: {}", what, one_line(PQerrorMessage(connection_.get())))};
}

Wire::Answer Wire::round_trip(Duration timeout) {
    begin_trip(timeout);
    while (true)
        if (auto answer = answered(timeout)) return *std::move(answer);
}

void Wire::begin_trip(Duration timeout) {
    trip_ = Trip{};
    Trip& trip = *trip_;
    trip.queued = std::exchange(queued_, {});
    trip.rows.reserve(trip.queued.size());
    trip.deadline = std::chrono::steady_clock::now() + timeout;
    trip.sent = !std::exchange(send_failed_, false) && PQpipelineSync(connection_.get()) == 1;
    if (!trip.sent) return;
    const int left = PQflush(connection_.get());
    trip.sent = left >= 0;
    trip.flushed = left == 0;
}

std::optional<Wire::Answer> Wire::answered(Duration wait) {
    SEMEL_ASSERT(trip_, "an answer is to what was sent");
    PGconn* const connection = connection_.get();
    Trip& trip = *trip_;
    if (!trip.sent) return lost("send");
    const auto until = std::min(trip.deadline, std::chrono::steady_clock::now() + wait);
    bool late = false;
    while (true) {
        if (!trip.flushed) {
            const int left = PQflush(connection);
            if (left < 0) return lost("send");
            trip.flushed = left == 0;
        }
        if (auto answer = take_results()) {
            trip_.reset();
            return answer;
        }
        const auto now = std::chrono::steady_clock::now();
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
        pollfd line{PQsocket(connection), static_cast<short>(trip.flushed ? POLLIN : POLLIN | POLLOUT), 0};
        const int ready = poll(&line, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
        if (ready < 0 && errno != EINTR) return lost("poll");
        if (ready > 0 && (line.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && PQconsumeInput(connection) != 1)
            return lost("read");
        // What has come by then is taken; what trickles on after its time is not waited for.
        if (ready > 0 && !std::exchange(late, now >= trip.deadline)) continue;
        if (now >= trip.deadline) return lost("no reply in time");
        if (now >= until) return std::nullopt;
    }
}

std::optional<Wire::Answer> Wire::take_results() {
    PGconn* const connection = connection_.get();
    Trip& trip = *trip_;
    while (PQisBusy(connection) == 0) {
        PGresult* raw = PQgetResult(connection);
        if (raw == nullptr) {
            // The end of one statement's results, or nothing left because the connection died.
            if (PQstatus(connection) == CONNECTION_BAD) return lost("read");
            continue;
        }
        Rows result(raw);
        const ExecStatusType status = PQresultStatus(raw);
        if (status == PGRES_PIPELINE_SYNC) {
            if (trip.error) return *std::move(trip.error);
            return std::move(trip.rows);
        }
        const char* const prepares = trip.at < trip.queued.size() ? trip.queued[trip.at].prepares : nullptr;
        ++trip.at;
        if (status == PGRES_PIPELINE_ABORTED) continue;
        if (prepares != nullptr && status == PGRES_COMMAND_OK) {
            kept_.push_back({prepares, name_of(prepares)});
            continue;
        }
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && !trip.error) {
            const char* state = PQresultErrorField(raw, PG_DIAG_SQLSTATE);
            const char* message = PQresultErrorField(raw, PG_DIAG_MESSAGE_PRIMARY);
            if (state == nullptr || PQstatus(connection) == CONNECTION_BAD)
                return lost(message != nullptr ? message : "read");
            trip.error = WireError{state, one_line(message)};
            // A kept statement no longer fits the schema, or is gone: a new connection has none.
            if (trip.error->sqlstate == "0A000" || trip.error->sqlstate == "26000") usable_ = false;
        }
        trip.rows.push_back(std::move(result));
    }
    return std::nullopt;
}

bool Wire::plain() {
    if (usable() && PQexitPipelineMode(connection_.get()) == 1 && PQsetnonblocking(connection_.get(), 0) == 0)
        return true;
    return usable_ = false;
}

bool Wire::pipelined() {
    if (usable() && PQsetnonblocking(connection_.get(), 1) == 0 && PQenterPipelineMode(connection_.get()) == 1)
        return true;
    return usable_ = false;
}

bool Wire::roll_back(Duration timeout) {
    if (!usable()) return false;
    send("rollback");
    const auto done = round_trip(timeout);
    if (std::holds_alternative<WireError>(done)) usable_ = false;
    return usable_;
}

}  // namespace semel::postgres
