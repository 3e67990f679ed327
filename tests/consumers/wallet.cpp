#include "wallet.hpp"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace semel::test {
namespace {

int number_at(std::string_view text, std::string_view name) {
    const auto at = text.find(fmt::format("\"{}\":", name));
    if (at == std::string_view::npos) throw Reject(fmt::format("no {} in the event", name));
    int value = 0;
    const char* first = text.data() + at + name.size() + 3;
    std::from_chars(first, text.data() + text.size(), value);
    return value;
}

}  // namespace

void make_wallet(Database& database) {
    database.run("create table account (number integer primary key, balance integer not null)");
    database.run(
        "create table entry (id text not null, account integer not null, amount integer not null, "
        "before integer not null, after integer not null)");
    database.run("create index entry_id on entry (id)");
    database.run("create index entry_after on entry (account, after)");
    for (int i = 0; i < wallet_accounts; ++i)
        database.run(fmt::format("insert into account (number, balance) values ({}, 0)", i));
}

Message credit(const std::string& broker, const std::string& id, int account, int amount) {
    Message message;
    const std::string prefix = broker == "kafka" ? "ce_" : broker == "rabbitmq" ? "cloudEvents:" : "ce-";
    message.ordering_key = fmt::format("account-{}", account);
    message.content_type = "application/json";
    message.headers = {{prefix + "specversion", "1.0"},
                       {prefix + "id", id},
                       {prefix + "source", "/wallet"},
                       {prefix + "type", "credit"}};
    message.body = fmt::format(R"({{"account":{},"amount":{}}})", account, amount);
    return message;
}

void apply_credit(Work& work) {
    const int account = number_at(work.event.data, "account");
    const int amount = number_at(work.event.data, "amount");
    // First what locks the account: the balance before is then the one that this credit is added to.
    execute(work.transaction,
            fmt::format("update account set balance = balance + {} where number = {}", amount, account));
    execute(work.transaction, fmt::format("insert into entry (id, account, amount, before, after) select '{}', "
                                          "number, {}, balance - {}, balance from account where number = {}",
                                          work.event.id, amount, amount, account));
}

std::string audit(Database& database, int ids, const std::string& consumer) {
    std::string wrong;
    const auto expect = [&](std::string_view what, const std::string& sql, const std::string& wanted) {
        const std::string found = database.value(sql);
        if (found != wanted) wrong += fmt::format("{}: {} instead of {}\n", what, found, wanted);
    };
    expect("entries", "select count(*) from entry", std::to_string(ids));
    expect("different entries", "select count(distinct id) from entry", std::to_string(ids));
    expect("operations settled",
           fmt::format("select count(*) from semel.operation where state = 3 and scope = '{}'", consumer),
           std::to_string(ids));
    expect("operations in another state", "select count(*) from semel.operation where state <> 3", "0");
    expect("accounts whose balance is not the sum of their entries",
           "select count(*) from account a where balance <> (select coalesce(sum(amount), 0) from entry e where "
           "e.account = a.number)",
           "0");
    // Each entry begins where exactly one other ended, or at zero.
    expect("entries whose balance before is that of no entry's end",
           "select count(*) from entry e where before <> 0 and not exists (select 1 from entry p where "
           "p.account = e.account and p.after = e.before)",
           "0");
    expect("accounts with two entries that begin at the same balance",
           "select count(*) from (select account, before from entry group by account, before having count(*) > 1) x",
           "0");
    expect("dead letters", "select count(*) from semel.dead_letter", "0");
    expect("on the shelf", "select count(*) from semel.shelf", "0");
    return wrong;
}

}  // namespace semel::test
