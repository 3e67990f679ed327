// The ledger in Asio coroutines: co_await a claim without blocking a thread. Header only; needs Boost.Asio.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "semel/committer.hpp"

namespace semel {

/// Submits the commands as one group; completes on the handler's own executor with the GroupAnswer.
/// A caller that cancels passes `waiting` and gives it up.
template <class CompletionToken>
auto async_execute(Committer& committer, std::vector<Command> commands, Duration wait, std::shared_ptr<Waiting> waiting,
                   CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, void(GroupAnswer)>(
        [&committer](auto handler, std::vector<Command> group, Duration limit, std::shared_ptr<Waiting> held) {
            auto executor = boost::asio::get_associated_executor(handler);
            // Keeps the executor running until the answer is there.
            auto work = boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
            committer.submit(std::move(group), limit, std::move(held),
                             [handler = std::move(handler), work = std::move(work)](GroupAnswer answer) mutable {
                                 auto on = work;
                                 boost::asio::post(on, [handler = std::move(handler), work = std::move(work),
                                                        answer = std::move(answer)]() mutable {
                                     std::move(handler)(std::move(answer));
                                 });
                             });
        },
        token, std::move(commands), wait, std::move(waiting));
}

template <class Executor = boost::asio::any_io_executor>
boost::asio::awaitable<Result<ClaimAnswer>, Executor> co_claim(Committer& committer, Claim command,
                                                               Duration wait = Duration{0},
                                                               std::shared_ptr<Waiting> waiting = nullptr) {
    prepare(command);
    std::vector<Command> group;
    group.emplace_back(std::move(command));
    GroupAnswer answer = co_await async_execute(committer, std::move(group), wait, std::move(waiting),
                                                boost::asio::use_awaitable_t<Executor>());
    co_return claim_answer(std::move(answer));
}

/// Renew, SaveCheckpoint, Settle, Release, Abandon or Resolve.
template <class Executor = boost::asio::any_io_executor>
boost::asio::awaitable<Result<HolderAnswer>, Executor> co_tell(Committer& committer, Command command,
                                                               Duration wait = Duration{0}) {
    std::vector<Command> group;
    group.push_back(std::move(command));
    GroupAnswer answer = co_await async_execute(committer, std::move(group), wait, std::shared_ptr<Waiting>(),
                                                boost::asio::use_awaitable_t<Executor>());
    co_return holder_answer(std::move(answer));
}

}  // namespace semel
