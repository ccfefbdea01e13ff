// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WORK_EXECUTOR_HPP
#define TURNSTILE_DETAIL_WORK_EXECUTOR_HPP

#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/prefer.hpp>
#include <type_traits>

namespace turnstile::detail {

/// An executor that counts as outstanding work. It has half the size of an executor_work_guard.
template <class Executor>
class work_executor
{
    using tracked_type = std::decay_t<boost::asio::prefer_result_t<
        Executor, boost::asio::execution::outstanding_work_t::tracked_t>>;

public:
    explicit work_executor(const Executor& executor)
        : executor_(boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked))
    {
    }

    [[nodiscard]] const tracked_type& get_executor() const noexcept { return executor_; }

private:
    tracked_type executor_;
};

/// An executor of the Networking TS.
template <class Executor>
    requires(!boost::asio::execution::is_executor<Executor>::value)
class work_executor<Executor> : public boost::asio::executor_work_guard<Executor>
{
public:
    using boost::asio::executor_work_guard<Executor>::executor_work_guard;
};

}  // namespace turnstile::detail

#endif
