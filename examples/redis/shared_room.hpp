// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARED_ROOM_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARED_ROOM_HPP

#include "common/simulation.hpp"
#include "redis/sharing.hpp"

// A room for readers and writers who are in several processes, of which some are killed. Three questions, and what
// answers them:
//
// Who opens the door if somebody dies inside? The lock of the monitor comes back by itself, but who reads does not
// hold it: what keeps others out is a number in the state. So each such number is contributed, see
// common/readers_writers.hpp. Also how many wait: a writer who waits keeps newcomers out, and one who was killed
// would do so for ever. When the lease of the process has ended, the server takes all of that out again and
// notifies those who watch it.
//
// In which order does it do so? In any. Each contribution lapses by itself, and if there are many, sections may come
// between one and the next. Whoever is notified looks at the state as it is then, and sleeps again if something
// else has not lapsed yet. So the contribution to a number notifies those whose predicate reads that number, and
// nobody counts on two of them going together.
//
// What about a process that was not killed, but stood still, or could not reach the server, for longer than its
// lease? Its readers and writers are not in the room any more, and do not know that. Here they find out when they
// leave, and have the turn once more. Whoever has to find out earlier asks redis::contribution::lost(). Whoever
// writes what must not be written then fences it: see shared_dinner.cpp.

namespace examples::library {

/// Opens a room to readers and writers in several processes, of which one is killed now and then and replaced.
///
/// Whether a writer was not alone is not judged by the monitor. Everybody signs a list when coming in, and crosses
/// the name out before leaving. Who finds somebody on it who should not be in the room puts that down, and it counts
/// if both of them turn out to have left in time: then both were in the room. What those who were killed have left
/// on the list means nothing.
///
/// At the end everybody has had all turns, and nobody is in the room or waits, according to the state.
/// @return what main() returns.
int open_shared_library(const sharing& how, int readers, int writers,
                        const simulation_options& options);

}  // namespace examples::library

#endif
