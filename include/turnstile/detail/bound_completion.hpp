// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_BOUND_COMPLETION_HPP
#define TURNSTILE_DETAIL_BOUND_COMPLETION_HPP

#include <boost/asio/associated_allocator.hpp>
#include <tuple>
#include <utility>

namespace turnstile::detail {

/// A nullary function that invokes a handler with stored arguments. It has the allocator of the
/// handler but not its executor, since it is already submitted to the right one.
template <class Handler, class... Args>
class bound_completion
{
public:
    using allocator_type = boost::asio::associated_allocator_t<Handler>;

    template <class... A>
    explicit bound_completion(Handler&& handler, A&&... args)
        : handler_(std::move(handler))
        , args_(std::forward<A>(args)...)
    {
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept
    {
        return boost::asio::get_associated_allocator(handler_);
    }

    void operator()() { std::apply(std::move(handler_), std::move(args_)); }

private:
    Handler handler_;
    std::tuple<Args...> args_;
};

}  // namespace turnstile::detail

#endif
