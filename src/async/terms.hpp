// What a grant is held under.
#pragma once

#include "semel/ledger.hpp"
#include "semel/store.hpp"

namespace semel {

/// The policy of an operation is that of its first claim (I12), so what was taken over is held under the terms of whoever began
/// it, whatever is configured by now: its lease ends that soon, and others believe that a call is over that soon after it.
struct Terms {
    Duration lease{};
    Duration effect_deadline{};
};
/// `asked` is the policy that was claimed with. Reads the record if it is not the first claim.
Result<Terms> terms_of(Store& store, const OperationId& id, const Claimed& claimed, const Policy& asked);

}  // namespace semel
