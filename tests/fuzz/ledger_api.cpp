// Any bytes as a request of the Ledger API: the first line names what is asked, the rest is the body or the query. What is
// taken is the caller's own and the ledger can take it; what is refused says why, in one line, and reads the same again.
#include "api/commands.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "semel/committer.hpp"

namespace {

using namespace semel;       // NOLINT(google-build-using-namespace): one subject, one file
using namespace semel::api;  // NOLINT(google-build-using-namespace)

const Caller caller{"who", "acme", {.hold = true, .read = true, .resolve = true}};

void check(const Refused& refused) {
    SEMEL_ASSERT(!refused.problems.empty() && refused.problems.size() <= problems_max + 1, "why, and not for ever");
    SEMEL_ASSERT(!refused.role, "this caller may ask for everything");
    const std::string text = refused.text();
    SEMEL_ASSERT(std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }), "one line");
}

void check(const Asked& asked) {
    SEMEL_ASSERT(validate(asked.command).ok(), "what the ledger can take");
    SEMEL_ASSERT(!asked.key.empty() && asked.key.size() <= Key::bytes_max, "a key");
    if (const auto* claim = std::get_if<Claim>(&asked.command)) {
        SEMEL_ASSERT(claim->operation.scope.tenant() == caller.tenant, "the caller's own tenant");
        SEMEL_ASSERT(claim->attempt != Attempt{} && !claim->in_transaction && claim->not_after == never,
                     "a plain claim");
        SEMEL_ASSERT(claim->policy.on_unknown != OnUnknown::joined, "never joined");
        SEMEL_ASSERT(asked.lease == claim->policy.lease, "the lease that is told");
    }
    if (const auto* resolve = std::get_if<Resolve>(&asked.command))
        SEMEL_ASSERT(resolve->who == caller.name && !resolve->why.empty(), "who and why");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view all(reinterpret_cast<const char*>(data), size);
    const std::size_t end = std::min(all.find('\n'), all.size());
    const std::string_view name = all.substr(0, end);
    const std::string_view rest = all.substr(std::min(end + 1, all.size()));
    if (name == "find") {
        const auto found = read_find(rest, caller);
        if (const auto* refused = std::get_if<Refused>(&found))
            check(*refused);
        else
            SEMEL_ASSERT(std::get<Operation>(found).scope.tenant() == caller.tenant, "the caller's own tenant");
    } else if (name == "batch") {
        const auto read = read_batch(rest, caller);
        if (const auto* refused = std::get_if<Refused>(&read)) {
            check(*refused);
        } else {
            const Groups& groups = std::get<Groups>(read);
            SEMEL_ASSERT(!groups.empty() && groups.size() <= groups_max, "a limited number of groups");
            for (const auto& group : groups) {
                SEMEL_ASSERT(!group.empty() && group.size() <= group_commands_max, "a limited number of commands");
                for (const Asked& asked : group) check(asked);
            }
        }
    } else {
        const auto read = read_command(name, rest, caller);
        std::visit([](const auto& each) { check(each); }, read);
        SEMEL_ASSERT(read.index() == read_command(name, rest, caller).index(), "the same again");
    }
    return 0;
}
