// Numbers: what a run gave, and what many runs give together.
#pragma once

#include <cstdint>
#include <vector>

namespace semel::bench {

/// The middle one; the mean of the two in the middle if their number is even. Zero if there are none.
double median(std::vector<double> values);

/// The value that the share `part` (0 … 1) of the values does not exceed. Zero if there are none.
double percentile(std::vector<double> values, double part);

/// One measured run.
struct Run {
    double per_second = 0;
    double done = 0;             ///< in all, warming up included
    double cpu_micros_each = 0;  ///< of all processes that had a part in it
    std::vector<double> micros;  ///< how long each single thing took; may be empty
};

/// Several runs of the same thing. Every figure is the median over the runs.
struct Figures {
    std::vector<double> per_second;
    std::vector<double> cpu_micros_each;
    std::vector<double> p50;
    std::vector<double> p99;

    void add(Run run);
};

}  // namespace semel::bench
