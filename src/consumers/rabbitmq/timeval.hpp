// Time as librabbitmq takes it.
#pragma once

#include <sys/time.h>

#include <algorithm>

#include "semel/time.hpp"

namespace semel::rabbitmq {

inline timeval timeval_of(Duration duration) {
    const auto micros = std::max<Duration::rep>(0, duration.count());
    return {micros / 1'000'000, micros % 1'000'000};
}

}  // namespace semel::rabbitmq
