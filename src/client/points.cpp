#include "client/points.hpp"

namespace semel::client {

void reach(Point) {}

}  // namespace semel::client
