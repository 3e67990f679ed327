#include "relay/request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <simdjson.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/quote.hpp"
#include "http/chars.hpp"
#include "http/fields.hpp"
#include "ledger/key_header.hpp"
#include "semel/envelope.hpp"

namespace semel::relay {
namespace {

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }

// What may stand in a field value, and what a reader would not trim away.
bool is_header_value(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; }) && http::trimmed(text) == text;
}

std::string base64(std::string_view bytes) {
    std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and the NUL that is written behind
    const int size =
        EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    return text;
}

struct Attribute {
    std::string_view name;
    std::string_view value;
};

// Those that CloudEvents has, empty ones left out.
std::vector<Attribute> attributes_of(const Event& event) {
    std::vector<Attribute> all{
        {"specversion", "1.0"}, {"id", event.id}, {"source", event.source}, {"type", event.type}};
    for (const Attribute& each : {Attribute{"subject", event.subject}, Attribute{"time", event.time},
                                  Attribute{"dataschema", event.data_schema}})
        if (!each.value.empty()) all.push_back(each);
    for (const auto& [name, value] : event.extensions) all.push_back({name, value});
    return all;
}

void fill_binary(const Event& event, HttpRequest& request) {
    for (const auto& [name, value] : attributes_of(event))
        request.fields.push_back({"ce-" + std::string(name), percent_encoded_header(value)});
    if (!event.data_content_type.empty()) request.fields.push_back({"Content-Type", event.data_content_type});
    request.body = event.data;
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
    out += out.size() == 1 ? "" : ",";
    append_json_string(out, name);
    out += ':';
    append_json_string(out, value);
}

// JSON as it is, other text as a string, anything else in base64. Without a content type a string would be JSON.
void fill_structured(const Event& event, bool data_is_json, HttpRequest& request) {
    std::string& out = request.body;
    out = "{";
    for (const auto& [name, value] : attributes_of(event)) append_member(out, name, value);
    if (!event.data_content_type.empty()) append_member(out, "datacontenttype", event.data_content_type);
    const bool declared_json = event.data_content_type.empty() || is_json(event.data_content_type);
    if (event.data.empty() && declared_json) {
        // No data at all.
    } else if (declared_json && data_is_json) {
        out += ",\"data\":" + event.data;
    } else if (!declared_json && simdjson::validate_utf8(event.data)) {
        append_member(out, "data", event.data);
    } else {
        append_member(out, "data_base64", base64(event.data));
    }
    out += '}';
    request.fields.push_back({"Content-Type", "application/cloudevents+json; charset=utf-8"});
}

bool is_url(std::string_view url) {
    const std::string_view rest = url.starts_with("http://")    ? url.substr(7)
                                  : url.starts_with("https://") ? url.substr(8)
                                                                : std::string_view();
    const std::string_view host = rest.substr(0, rest.find_first_of("/?"));
    return !host.empty() && http::is_host(host) && http::all_of(rest, http::target_char);
}

}  // namespace

std::string_view name(DeliveryMode mode) {
    switch (mode) {
        case DeliveryMode::binary: return "binary";
        case DeliveryMode::structured: return "structured";
        case DeliveryMode::plain: return "plain";
    }
    return "unknown";
}

bool is_own_header(std::string_view name) {
    if (http::is_hop_by_hop(name) || http::variable_starts_with(name, "Semel-") ||
        http::variable_starts_with(name, "ce-"))
        return true;
    return std::ranges::any_of(std::to_array<std::string_view>({"Host", "Content-Length", "Expect", "Idempotency-Key",
                                                                "traceparent", "tracestate"}),
                               [&](std::string_view own) { return http::same_name(name, own); });
}

std::string percent_encoded_header(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c > 0x20 && c < 0x7f && c != '"' && c != '%')
            out.push_back(c);
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

Result<RequestMaker> RequestMaker::make(RequestOptions options) {
    auto url = Template::parse(options.url, Template::Of::url);
    if (!url) return refused("to.url: " + url.failure().message);
    if (!is_url(options.url))
        return refused("to.url: write http:// or https://, a host and a path, without user or fragment");
    if (std::ranges::find(delivery_methods, options.method) == delivery_methods.end())
        return refused(fmt::format("to.method: write {}", fmt::join(delivery_methods, " or ")));
    if (options.body && options.mode != DeliveryMode::plain)
        return refused("to.body: CloudEvents say what the body is; write mode: plain, or leave it out");
    RequestMaker maker(std::move(options), std::move(*url));
    for (const auto& [name, value] : maker.options_.headers) {
        if (name.empty() || !http::all_of(name, http::token_char) || is_own_header(name))
            return refused(fmt::format("to.headers: {} cannot be set", in_quotes(name)));
        if (http::same_name(name, "Content-Type") && maker.options_.mode != DeliveryMode::plain)
            return refused("to.headers: CloudEvents say what the content type is; write mode: plain, or leave it out");
        auto made = Template::parse(value, Template::Of::header);
        if (!made) return refused(fmt::format("to.headers.{}: {}", name, made.failure().message));
        if (!is_header_value(value))
            return refused(fmt::format("to.headers.{}: a header is printable ASCII without spaces around it", name));
        maker.headers_.push_back(std::move(*made));
    }
    if (maker.options_.body) {
        auto made = Template::parse(*maker.options_.body, Template::Of::json);
        if (!made) return refused("to.body: " + made.failure().message);
        maker.body_ = std::move(*made);
    }
    return maker;
}

Status RequestMaker::fill_plain(const Parcel& parcel, const Template::Values& values, HttpRequest& request) const {
    const bool typed = std::ranges::any_of(
        options_.headers, [](const HttpField& header) { return http::same_name(header.name, "Content-Type"); });
    if (body_) {
        auto body = body_->filled(values);
        if (!body) return refused("to.body: " + body.failure().message);
        request.body = std::move(*body);
        if (!typed) request.fields.push_back({"Content-Type", "application/json"});
    } else {
        request.body = parcel.event.data;
        if (!typed && !parcel.event.data_content_type.empty())
            request.fields.push_back({"Content-Type", parcel.event.data_content_type});
    }
    return Done{};
}

Result<HttpRequest> RequestMaker::request(const Parcel& parcel) const {
    const Event& event = parcel.event;
    const Key key = delivery_key(parcel.operation);
    const auto data = JsonDocument::parse(event.data);
    const Template::Values values{event, key.text(), parcel.correlation, data ? &*data : nullptr};

    HttpRequest request{.method = options_.method};
    auto url = url_.filled(values);
    if (!url) return refused("to.url: " + url.failure().message);
    request.url = std::move(*url);
    switch (options_.mode) {
        case DeliveryMode::plain:
            if (auto filled = fill_plain(parcel, values, request); !filled) return std::move(filled).failure();
            break;
        case DeliveryMode::binary:
        case DeliveryMode::structured:
            if (event.type.empty() || event.source.empty())
                return refused("the event has no type or no source, which CloudEvents need");
            if (options_.mode == DeliveryMode::binary)
                fill_binary(event, request);
            else
                fill_structured(event, data.has_value(), request);
    }
    for (std::size_t i = 0; i < headers_.size(); ++i) {
        auto value = headers_[i].filled(values);
        if (!value) return refused(fmt::format("to.headers.{}: {}", options_.headers[i].name, value.failure().message));
        request.fields.push_back({options_.headers[i].name, std::move(*value)});
    }
    request.fields.push_back({"Idempotency-Key", key_to_header(key)});
    request.fields.push_back({"Semel-Operation", to_hex(parcel.operation.id().bytes)});
    request.fields.push_back({"Semel-Scope", parcel.operation.scope.text()});
    request.fields.push_back({"Semel-Tries", std::to_string(parcel.tries)});
    if (!parcel.correlation.empty())
        request.fields.push_back({options_.correlation_header, percent_encoded_header(parcel.correlation)});
    for (const std::string_view trace : {"traceparent", "tracestate"})
        if (const std::string* value = event.extension(trace); value != nullptr && is_header_value(*value))
            request.fields.push_back({std::string(trace), *value});
    for (const auto& [header, value] : request.fields)
        if (!is_header_value(value))
            return refused(fmt::format("the header {} cannot hold what the event says", header));
    return request;
}

}  // namespace semel::relay
