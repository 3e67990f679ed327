#include "base/duration.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/quote.hpp"

namespace semel {
namespace {

struct Unit {
    std::string_view name;
    std::int64_t micros;
};
constexpr std::array<Unit, 6> units{
    {{"d", 86'400'000'000}, {"h", 3'600'000'000}, {"m", 60'000'000}, {"s", 1'000'000}, {"ms", 1'000}, {"us", 1}}};

Failure refused(std::string_view text, std::string_view why) {
    return {Code::invalid, fmt::format("duration {}: {}", in_quotes(text), why)};
}

struct Date {
    std::int64_t year;
    std::int64_t month;
    std::int64_t day;
};

// The proleptic Gregorian date of a day counted from 1970-01-01, for every year that fits; std::chrono stops at 32767.
// Years begin in March here, so that the leap day is the last of its year.
constexpr Date date_of(std::int64_t day_number) {
    constexpr std::int64_t era_days = 146'097;  // 400 years
    const std::int64_t shifted = day_number + 719'468;
    const std::int64_t era = (shifted >= 0 ? shifted : shifted - (era_days - 1)) / era_days;
    const std::int64_t day_of_era = shifted - era * era_days;
    const std::int64_t year_of_era =
        (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
    const std::int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const std::int64_t month_from_march = (5 * day_of_year + 2) / 153;
    const std::int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    const std::int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
    return {year, month, day_of_year - (153 * month_from_march + 2) / 5 + 1};
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
    static constexpr std::string_view right =
        "write a whole number and a unit (us, ms, s, m, h, d), as in 250ms, 30s or 24h";
    if (text.starts_with('-')) return refused(text, "a duration is not negative");
    std::int64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, count);
    if (error == std::errc::result_out_of_range) return refused(text, "too long");
    if (error != std::errc{}) return refused(text, right);
    const std::string_view unit_name(rest, static_cast<std::size_t>(end - rest));
    if (unit_name.empty()) return refused(text, fmt::format("the unit is missing; {}", right));
    for (const Unit& unit : units) {
        if (unit.name != unit_name) continue;
        std::int64_t total = 0;
        if (__builtin_mul_overflow(count, unit.micros, &total)) return refused(text, "too long");
        return Duration{total};
    }
    return refused(text, fmt::format("unknown unit {}; {}", in_quotes(unit_name), right));
}

std::string to_text(Duration duration) {
    if (duration == Duration::zero()) return "0s";
    for (const Unit& unit : units)
        if (duration.count() % unit.micros == 0) return fmt::format("{}{}", duration.count() / unit.micros, unit.name);
    return {};  // every count is a multiple of 1us
}

std::string to_text(TimePoint at) {
    if (at == never) return "never";
    // Not by std::chrono::floor: the day that contains the earliest time begins before it.
    constexpr std::int64_t day_micros = 86'400'000'000;
    const std::int64_t into_day = (micros(at) % day_micros + day_micros) % day_micros;
    const std::int64_t day = micros(at) / day_micros - (micros(at) % day_micros < 0 ? 1 : 0);
    const std::int64_t millis = into_day / 1'000;
    const Date date = date_of(day);
    const std::string year =
        date.year >= 0 && date.year <= 9999 ? fmt::format("{:04}", date.year) : fmt::format("{:+05}", date.year);
    return fmt::format("{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", year, date.month, date.day, millis / 3'600'000,
                       millis / 60'000 % 60, millis / 1'000 % 60, millis % 1'000);
}

}  // namespace semel
