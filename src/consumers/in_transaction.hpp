// A few statements in a transaction of their own.
#pragma once

#include "semel/inbox.hpp"

namespace semel {

/// Calls work(now) between begin and commit. Its failure rolls back, and is returned.
template <class Work>
auto in_transaction(Inbox& inbox, Work work) -> decltype(work(TimePoint{})) {
    const auto begun = inbox.begin();
    if (!begun) return begun.failure();
    auto result = work(*begun);
    if (!result) {
        inbox.roll_back();
        return result;
    }
    if (auto committed = inbox.commit(); !committed) return committed.failure();
    return result;
}

}  // namespace semel
