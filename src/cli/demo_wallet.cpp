#include "cli/demo_wallet.hpp"

#include <fmt/format.h>

#include <map>

namespace semel::cli::demo {

using sqlite::Statement;

std::string money(std::int64_t cents) { return fmt::format("{}.{:02}", cents / 100, cents % 100); }

Result<Wallet> Wallet::open(const std::string& path) {
    sqlite3* raw = nullptr;
    const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE, nullptr);
    sqlite::Connection connection(raw);
    if (opened != SQLITE_OK) return sqlite::failure_of(raw, "open the wallets");
    sqlite3_extended_result_codes(raw, 1);
    sqlite3_busy_timeout(raw, 10'000);
    if (auto set = sqlite::run(raw, "pragma synchronous=full"); !set) return set.failure();
    return Wallet(std::move(connection));
}

Status Wallet::create(const std::vector<std::string>& accounts) {
    sqlite3* const db = connection();
    if (auto made =
            sqlite::run(db,
                        "create table wallet (account text primary key, cents integer not null);"
                        "create table audit (id integer primary key, payment text not null, account text not null,"
                        " cents integer not null, cents_before integer not null)");
        !made)
        return made;
    auto insert = Statement::prepare(db, "insert into wallet (account, cents) values (?1, 0)");
    if (!insert) return insert.failure();
    for (const std::string& account : accounts) {
        insert->bind_text(1, account);
        if (insert->run() != SQLITE_DONE) return sqlite::failure_of(db, "make a wallet");
    }
    return Done{};
}

Status Wallet::credit(const Credit& credit) {
    sqlite3* const db = connection();
    auto audit = Statement::prepare(db,
                                    "insert into audit (payment, account, cents, cents_before) "
                                    "select ?1, account, ?3, cents from wallet where account = ?2");
    if (!audit) return audit.failure();
    audit->bind_text(1, credit.payment);
    audit->bind_text(2, credit.account);
    audit->bind(3, credit.cents);
    if (audit->run() != SQLITE_DONE) return sqlite::failure_of(db, "write the audit");
    auto update = Statement::prepare(db, "update wallet set cents = cents + ?2 where account = ?1");
    if (!update) return update.failure();
    update->bind_text(1, credit.account);
    update->bind(2, credit.cents);
    if (update->run() != SQLITE_DONE) return sqlite::failure_of(db, "credit a wallet");
    if (sqlite3_changes(db) != 1)
        return Failure{Code::invalid, fmt::format("there is no wallet of {}", credit.account)};
    return Done{};
}

Result<std::uint64_t> Wallet::applied() const {
    auto count = Statement::prepare(connection(), "select count(*) from audit");
    if (!count) return count.failure();
    if (count->step() != SQLITE_ROW) return sqlite::failure_of(connection(), "count the credits");
    return static_cast<std::uint64_t>(count->integer(0));
}

Result<Wallet::Check> Wallet::check_balances(const Plan& plan) const {
    std::map<std::string, std::int64_t> expected;
    std::int64_t total = 0;
    for (const std::string& account : plan.accounts) expected[account] = 0;
    for (const Step& step : plan.steps) {
        expected[step.payment.account] += step.payment.cents;
        total += step.payment.cents;
    }
    auto statement = Statement::prepare(connection(), "select account, cents from wallet");
    if (!statement) return statement.failure();
    std::map<std::string, std::int64_t> found;
    while (statement->step() == SQLITE_ROW) found[statement->bytes(0)] = statement->integer(1);
    return Check{found == expected,
                 fmt::format("{} balances equal the sum of the distinct payments, {}", found.size(), money(total))};
}

/// Every payment once, and each credit begins with the balance that the one before it left.
Result<Wallet::Check> Wallet::check_audit(const Plan& plan) const {
    std::map<std::string, std::int64_t> balance;
    std::map<std::string, std::uint64_t> times;
    auto statement =
        Statement::prepare(connection(), "select payment, account, cents, cents_before from audit order by id");
    if (!statement) return statement.failure();
    bool gapless = true;
    while (statement->step() == SQLITE_ROW) {
        std::int64_t& before = balance[statement->bytes(1)];
        gapless = gapless && statement->integer(3) == before;
        before += statement->integer(2);
        ++times[statement->bytes(0)];
    }
    bool once_each = times.size() == plan.steps.size();
    for (const Step& step : plan.steps) {
        const auto found = times.find(step.payment.key.text());
        once_each = once_each && found != times.end() && found->second == 1;
    }
    return Check{
        gapless && once_each,
        fmt::format("one audit row for each of the {} payments, with the balance before it", plan.steps.size())};
}

Result<std::vector<Wallet::Check>> Wallet::check(const Plan& plan) const {
    auto balances = check_balances(plan);
    if (!balances) return balances.failure();
    auto audit = check_audit(plan);
    if (!audit) return audit.failure();
    return std::vector{std::move(*balances), std::move(*audit)};
}

}  // namespace semel::cli::demo
