// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_READING_ROOM_HPP
#define TURNSTILE_TEST_SUPPORT_READING_ROOM_HPP

#include <boost/describe/class.hpp>

namespace turnstile::test {

/// The state that several processes share: the number of readers, and the number of visits so far.
struct reading_room
{
    int readers = 0;
    int visits = 0;
};

BOOST_DESCRIBE_STRUCT(reading_room, (), (readers, visits))

/// The condition that is notified when a reader leaves.
inline constexpr const char* reader_gone = "reader_gone";

}  // namespace turnstile::test

#endif
