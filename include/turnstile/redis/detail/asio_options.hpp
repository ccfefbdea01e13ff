// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_ASIO_OPTIONS_HPP
#define TURNSTILE_REDIS_DETAIL_ASIO_OPTIONS_HPP

#include <boost/asio/buffer.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/config.hpp>
#include <string_view>

namespace turnstile::redis::detail {

// An undefined macro expands to its own name.
#define TURNSTILE_IS_DEFINED(macro) (std::string_view(BOOST_STRINGIZE(macro)) != #macro)

/// The options of Asio that change the layout of its types, one bit each, and from bit 16 on the size of its caches.
inline constexpr unsigned asio_options =
    (TURNSTILE_IS_DEFINED(BOOST_ASIO_ENABLE_HANDLER_TRACKING) ||
     TURNSTILE_IS_DEFINED(BOOST_ASIO_CUSTOM_HANDLER_TRACKING)) |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_ENABLE_BUFFER_DEBUGGING) << 1 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_THREADS) << 2 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_THREAD_KEYWORD_EXTENSION) << 3 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_IO_URING) << 4 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT) << 5 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_EPOLL) << 6 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_TIMERFD) << 7 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_EVENTFD) << 8 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_KQUEUE) << 9 |
    TURNSTILE_IS_DEFINED(BOOST_ASIO_HAS_DEV_POLL) << 10 |
    unsigned(BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE) << 16;

#undef TURNSTILE_IS_DEFINED

/// A parameter of a function of the library. A program with other options than the library has another type. So it does
/// not link: it would crash.
template <unsigned Options>
struct asio_options_have_to_equal_those_of_the_library
{
};

using checked_asio_options = asio_options_have_to_equal_those_of_the_library<asio_options>;

}  // namespace turnstile::redis::detail

#endif
