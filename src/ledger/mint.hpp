// Minting from a given random source: what include/semel/keys.hpp does with the system's, the simulator does with a
// seed.
#pragma once

#include "base/random.hpp"
#include "semel/operation.hpp"

namespace semel {

Key mint_uuid4(Random& random);
/// A time before 1970 counts as 1970.
Key mint_uuid7(Random& random, TimePoint at);
Attempt mint_attempt(Random& random);

}  // namespace semel
