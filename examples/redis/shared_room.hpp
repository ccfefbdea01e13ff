// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARED_ROOM_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARED_ROOM_HPP

#include "common/simulation.hpp"
#include "redis/sharing.hpp"

// A room for readers and writers in several processes, some of which are killed. Three questions and their answers:
//
// What if a process is killed while one of its readers is inside? The lock of the monitor expires, but a reader does
// not hold that lock: a number in the state excludes writers. So each such number consists of contributions, see
// common/readers_writers.hpp. So do the numbers of waiters: a waiting writer keeps new readers out, and a killed one
// would do so for ever. When the lease of the process has expired, the server undoes its contributions and notifies
// the waiters that depend on the numbers.
//
// In which order does the server undo them? In any order. Each contribution expires by itself, and critical sections
// may run in between. A notified participant checks the state and waits again if another contribution has not
// expired yet. So each contribution notifies the participants whose predicate reads its number, and no predicate
// relies on two contributions expiring together.
//
// What if a process is not killed, but stopped or disconnected for longer than its lease? Its readers and writers
// are no longer in the room and do not know it. Here they find out when they leave, and repeat the turn. Code
// that must know earlier uses redis::contribution::lost(). Code whose writes must be rejected then uses fencing:
// see shared_dinner.cpp.

namespace examples::library {

/// Runs readers and writers in several processes. From time to time one process is killed and replaced.
///
/// The check of exclusion does not rely on the monitor. Each participant adds its name to a list when it enters, and
/// removes it before it leaves. A participant that finds an incompatible name there records the pair. The pair
/// is a mistake if both visits ended before their leases expired: then both were in the room. Names left by killed
/// processes do not count.
///
/// At the end all turns are done and, according to the state, nobody is inside or waits.
/// @return The exit status for main().
int open_shared_library(const sharing& how, int readers, int writers,
                        const simulation_options& options);

}  // namespace examples::library

#endif
