// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_SHARED_DINNER_HPP
#define TURNSTILE_EXAMPLES_REDIS_SHARED_DINNER_HPP

#include "common/simulation.hpp"
#include "redis/sharing.hpp"
#include <string>
#include <vector>

namespace examples::dinner {

/// Gives a dinner at which the philosophers are in several processes, of which one is killed now and then
/// and replaced. Each fork is a mutex over Redis, and each meal is counted there, if the fencing tokens of
/// both forks are the latest: by somebody who is dead, or only believes to hold them, none is.
///
/// Everybody takes the fork with the lower number first. At the end everybody has eaten as often as was said,
/// and all forks lie on the table.
/// @return what main() returns.
int give_shared_dinner(const sharing& table, const std::vector<std::string>& names,
                       const simulation_options& options);

}  // namespace examples::dinner

#endif
