// An application's own database and its own connections to it, in every mode in which `once` is offered.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "semel/once.hpp"
#include "semel/store.hpp"

namespace semel::test {

struct TestColumn {
    std::string name{};
    std::optional<std::string> value{};
};

/// One connection, on which the test begins and ends transactions. Any failure of plain SQL throws.
class Client {
public:
    virtual ~Client() = default;

    virtual void begin() = 0;
    /// False: the database could not serialise the transaction and rolled it back.
    [[nodiscard]] virtual bool commit() = 0;
    virtual void rollback() = 0;
    virtual void run(const std::string& sql) = 0;
    /// The first column of the first row, or "".
    virtual std::string value(const std::string& sql) = 0;

    virtual Result<OnceAnswer> once(const Operation& operation, const Fingerprint& fingerprint, const Effect& effect,
                                    const OnceOptions& options = {}) = 0;
    virtual Result<TransactionClaim> claim(const Operation& operation, const Fingerprint& fingerprint,
                                           const OnceOptions& options = {}) = 0;
    virtual Result<HolderAnswer> settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) = 0;
    virtual Result<CreatedRow> create_once(const std::string& table, const std::vector<TestColumn>& unique,
                                           const std::vector<TestColumn>& rest,
                                           const std::vector<std::string>& returning) = 0;
    virtual Result<AppliedIf> apply_if(const std::string& table, const TestColumn& id, const std::string& column,
                                       const std::string& expected, const std::string& next,
                                       const std::vector<TestColumn>& also = {}) = 0;
};

/// The database: Semel's tables, and `effect (what text)`, in which effects leave a row each.
class Application {
public:
    virtual ~Application() = default;

    virtual std::unique_ptr<Client> connect() = 0;
    /// The leased face of the same ledger.
    virtual Store& store() = 0;
    /// The stored columns of an operation, in hex; null is "". Read and written behind the ledger's back.
    virtual std::string stored(const OperationId& id, const std::string& column) = 0;
    virtual void store_column(const OperationId& id, const std::string& column, const std::string& hex) = 0;
};

struct Mode {
    std::string name;
    std::function<std::unique_ptr<Application>()> make;
};
inline void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

/// sqlite; postgres at READ COMMITTED, REPEATABLE READ and SERIALIZABLE; postgres behind PgBouncer.
const std::vector<Mode>& all_modes();

}  // namespace semel::test
