// Every store and every mode of it, as the conformance suite and the comparisons see them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "semel/store.hpp"

namespace semel::test {

/// A store under test with its world: a clock that can be moved, a file that can be damaged, a process that can restart.
class StoreUnderTest {
public:
    virtual ~StoreUnderTest() = default;

    virtual Store& store() = 0;
    /// Lets time pass for the store. Nobody sleeps: either its clock is moved or its records are made older.
    virtual void pass(Duration time) = 0;
    /// Flips one bit of what is stored about the operation, behind the store's back.
    virtual void damage(const OperationId& id, std::string_view column, std::size_t byte) = 0;
    /// Whether damage() can be done at all: the memory store has no form outside of itself.
    [[nodiscard]] virtual bool can_damage() const { return true; }
    /// What a new process finds after this one was killed.
    virtual void restart() = 0;
    /// Forgets everything, as if made anew; cheaper than that.
    virtual void clear() = 0;
    /// Leases die with the process: an embedded store, with one owner.
    [[nodiscard]] virtual bool embedded() const = 0;
};

struct StoreKind {
    std::string name;
    std::function<std::unique_ptr<StoreUnderTest>()> make;
};

/// memory, sqlite, postgres, postgres behind PgBouncer.
const std::vector<StoreKind>& all_stores();

}  // namespace semel::test
