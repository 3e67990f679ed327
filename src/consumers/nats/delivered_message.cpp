#include "consumers/nats/delivered_message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "consumers/nats/handles.hpp"

namespace semel::nats {
namespace {

struct Free {
    void operator()(const char** list) const { std::free(static_cast<void*>(list)); }
};
using List = std::unique_ptr<const char*, Free>;

bool is_content_type(std::string_view name) {
    return std::ranges::equal(name, std::string_view("content-type"),
                              [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
}

void add_values(Message& message, natsMsg* raw, const char* name) {
    const char** values = nullptr;
    int count = 0;
    if (natsMsgHeader_Values(raw, name, &values, &count) != NATS_OK) return;
    const List owned(values);
    for (int i = 0; i < count; ++i) {
        if (is_content_type(name))
            message.content_type = values[i];
        else
            message.headers.push_back({name, values[i]});
    }
}

void add_headers(Message& message, natsMsg* raw) {
    const char** names = nullptr;
    int count = 0;
    if (natsMsgHeader_Keys(raw, &names, &count) != NATS_OK) return;
    const List owned(names);
    // The library keeps them in a hash table: sorted, so that they are the same on each delivery.
    std::vector<std::string_view> sorted(names, names + count);
    std::ranges::sort(sorted);
    for (const std::string_view name : sorted) add_values(message, raw, name.data());
}

}  // namespace

std::optional<Delivered> delivered_of(natsMsg* raw, const std::string& ordering_header) {
    jsMsgMetaData* read = nullptr;
    if (natsMsg_GetMetaData(&read, raw) != NATS_OK) return std::nullopt;
    const MetaDataHandle meta(read);
    Delivered delivered;
    delivered.reply = natsMsg_GetReply(raw);
    delivered.sequence = meta->Sequence.Stream;
    Message& message = delivered.message;
    message.binding = Binding::nats;
    message.topic = natsMsg_GetSubject(raw);
    message.body.assign(natsMsg_GetData(raw), static_cast<std::size_t>(natsMsg_GetDataLength(raw)));
    message.position = fmt::format("{}@{}", meta->Stream, meta->Sequence.Stream);
    message.published = time_from_micros(meta->Timestamp / 1000);
    message.deliveries = static_cast<std::uint32_t>(std::min<std::uint64_t>(meta->NumDelivered, UINT32_MAX));
    add_headers(message, raw);
    if (ordering_header.empty())
        message.ordering_key = message.topic;
    else if (const std::string* value = message.header(ordering_header))
        message.ordering_key = *value;
    return delivered;
}

}  // namespace semel::nats
