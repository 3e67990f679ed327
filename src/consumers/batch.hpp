// One batch of messages, one transaction.
//
// States of a batch and what a crash in each leaves:
//   begun, claimed, handled   nothing: the transaction is rolled back, the broker delivers again
//   committed                 effects, claims, shelf and dead letters are all there; the broker delivers again, and every
//                             message is found done
//   acknowledged              the same; the broker is done with it
//
// A handler that fails before it has written anything leaves nothing to undo. Any other is rolled back to the last mark, and
// those since then are run again without it. Marks are far apart while all goes well, and close together after a failure.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "consumers/engine.hpp"
#include "consumers/group.hpp"

namespace semel {

class Batch final : public Engine {
public:
    Batch(const ConsumerOptions& options, Inbox& inbox, const Handler& handler);

    Status apply(std::vector<Item>& items) override;
    Result<FromShelf> apply_due(std::size_t limit) override;
    [[nodiscard]] TimePoint began() const override { return now_; }

private:
    static constexpr std::size_t marks_few = 8;  ///< messages between two marks after a failure

    Status begin();
    Status apply_in_transaction(std::vector<Item>& items);
    Status name_operations(std::vector<Item>& items, std::uint32_t generation);
    static void find_copies(std::vector<Item>& items);
    Status find_blocked(std::vector<Item>& items);
    Status claim(std::vector<Item>& items);
    static void wait_behind_busy(std::vector<Item>& items);
    Status run(std::vector<Item>& items);
    enum class Chunk : std::uint8_t {
        done,
        done_again,  ///< without those that failed
        undone,
    };
    Result<Chunk> run_chunk(std::vector<Item>& items, std::span<const std::size_t> chunk);
    static void wait_behind_failed(std::vector<Item>& items);
    enum class Ran : std::uint8_t {
        well,
        failed_before_it_wrote,
        failed,  ///< and has to be rolled back
    };
    Result<Ran> run_one(Item& item);
    Result<bool> in_order(Item& item);
    [[nodiscard]] std::string order_book() const;
    Status set_back_one(const Item& item, const Failure& failure);
    Status put_away(std::vector<Item>& items);
    Status put_away_one(Item& item);
    void fail(Item& item, std::string_view error, bool no_further_try);
    void at(std::string_view point) const;

    const ConsumerOptions& options_;
    Inbox& inbox_;
    const Handler& handler_;
    Shelf shelf_;
    TimePoint now_{};
    GroupState group_{};
    std::size_t marks_apart_;  ///< messages between two marks: between marks_few and what the options say
};

}  // namespace semel
