// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARED_SHELF_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARED_SHELF_HPP

#include "common/simulation.hpp"
#include "redis/sharing.hpp"

// A shelf that several processes share, some of which are killed. Three questions and their answers:
//
// Which operations of redis::async_semaphore? Both semaphores move units as P and V do: a producer takes a
// free slot for good, and a consumer adds it again later. But `async_take()` would be the wrong P. It removes
// the unit at once, and if the process were killed before its item is on the shelf, the slot would never come
// back. So a slot is acquired as a permit, which is a lease: it comes back if its holder crashes while the
// item is being made. When the item is on the shelf, the permit is forgotten, which takes the unit for good.
// The right to take an item works the same way. V is `async_release()`: nobody holds the added unit.
//
// What if a process is killed between moving the item and moving the unit? No lock and no semaphore makes two
// commands one. So the steps are ordered such that a kill leaves a unit too many, never one too few:
//   - Killed after the move and before the permit is forgotten: the lease expires, and the unit comes back.
//   - Killed after the move: nobody knows whether before or after the V. The replacement of the killed
//     process does the V once more.
// A missing unit would block a waiter for ever. A surplus unit only resumes a waiter, which finds the shelf
// full, or empty, and discards the unit.
//
// What makes the result exact, then? The shelf itself. Each move is one script that also updates the
// counters. It rejects an item for which there is no room, and late calls of a replaced process. The
// semaphores avoid polling; the data themselves enforce the invariants.

namespace examples::shop {

/// Runs producers and consumers in several processes. From time to time one process is killed and replaced.
///
/// At the end each item was produced and consumed once, the shelf never held more items than slots, and all
/// slots are free again, also those that killed processes held.
/// @return The exit status for main().
int open_shared_shop(const sharing& how, int producers, int consumers, int slots,
                     const simulation_options& options);

}  // namespace examples::shop

#endif
