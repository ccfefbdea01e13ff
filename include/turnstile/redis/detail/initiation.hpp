// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_INITIATION_HPP
#define TURNSTILE_REDIS_DETAIL_INITIATION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis::detail {

/// Starts an operation on an object of a session, or on one of its grants: calls a function with the object, the
/// arguments, and the type-erased handler.
template <class Object>
class initiation
{
public:
    using executor_type = boost::asio::any_io_executor;

    explicit initiation(Object& object) noexcept
        : object_(&object)
    {
    }

    [[nodiscard]] executor_type get_executor() const
    {
        if constexpr (requires { object_->executor(); })
            return object_->executor();
        else
            return executor_of(**object_);
    }

    /// The handler receives the result as @p map returns it.
    template <class Handler, class Start, class Map, class... Arguments>
    void operator()(Handler&& handler, Start start, Map map, Arguments... arguments) const
    {
        const auto executor = get_executor();
        start(*object_, std::move(arguments)...,
              {mapped_handler<std::decay_t<Handler>, Map>(std::forward<Handler>(handler),
                                                          std::move(map)),
               executor});
    }

private:
    Object* object_;
};

}  // namespace turnstile::redis::detail

#endif
