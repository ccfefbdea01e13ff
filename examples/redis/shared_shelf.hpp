// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARED_SHELF_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARED_SHELF_HPP

#include "common/simulation.hpp"
#include "redis/sharing.hpp"

// A shelf that several processes share, of which some are killed. Three questions, and what answers them:
//
// Which flavour of redis::async_semaphore? Both semaphores move units as P and V do: whoever puts an item on
// the shelf takes a free slot for good, and somebody else adds it again later. But `async_take()` would be
// the wrong P. The unit would be gone at once, and if the process were killed before its item lies on the
// shelf, that slot would never come back. So a slot is acquired as a permit, which is a lease: it comes back
// if its holder dies while the item is being made. Only when the item lies there is the permit forgotten,
// which takes the unit for good. It is the same with the right to take an item. V is `async_release()`: what
// is added belongs to nobody.
//
// What if a process is killed between the two steps, the move of the item and that of the unit? No lock and
// no semaphore makes two commands one. So the order of the steps is such that a kill leaves a unit too
// many, never one too few:
//   - Killed after the move and before the permit is forgotten: the lease ends, and the unit comes back.
//   - Killed after the move and before the V, or after both: nobody knows which. Whoever takes the place of
//     the one who was killed makes the V once more.
// A unit too few would be waited for for ever. One too many only wakes somebody, who finds the shelf full, or
// empty, and throws the unit away.
//
// What makes it exact, then? The shelf itself. Each move is one script, together with all that is counted. It
// refuses the item for which there is no room, and it refuses what was sent by a process that has been
// replaced, should it arrive late. The semaphores spare everybody to ask again and again; what must never
// happen is decided where the data are.

namespace examples::shop {

/// Lets producers and consumers work in several processes, of which one is killed now and then and replaced.
///
/// At the end each item was produced and consumed once, there were never more on the shelf than slots, and all
/// slots are free again, also those that were held by processes that were killed.
/// @return what main() returns.
int open_shared_shop(const sharing& how, int producers, int consumers, int slots,
                     const simulation_options& options);

}  // namespace examples::shop

#endif
