// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_INITIATION_HPP
#define TURNSTILE_REDIS_DETAIL_INITIATION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <memory>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <utility>

namespace turnstile::redis::detail {

/// Base of the initiations of a pool's operations.
class initiation
{
public:
    using executor_type = boost::asio::any_io_executor;

    explicit initiation(const std::shared_ptr<lock_handle>& pool) noexcept
        : pool_(&pool)
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_of(**pool_); }

protected:
    [[nodiscard]] const std::shared_ptr<lock_handle>& pool() const noexcept { return *pool_; }

private:
    const std::shared_ptr<lock_handle>* pool_;
};

/// Waits for units; a function maps the grant to the operation's result.
struct initiate_acquire : initiation
{
    using initiation::initiation;

    template <class Handler, class Map>
    void operator()(Handler&& handler, time_limit limit, std::int64_t units, Map map) const
    {
        start_acquire(this->pool(), limit, units, false,
                      {mapped_handler<std::decay_t<Handler>, Map>(std::forward<Handler>(handler),
                                                                  std::move(map)),
                       this->get_executor()});
    }
};

}  // namespace turnstile::redis::detail

#endif
