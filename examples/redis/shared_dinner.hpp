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

/// Runs the dinner with philosophers in several processes. From time to time one process is killed and
/// replaced. Each fork is a semaphore over Redis with one unit. A meal counts only if the fencing tokens of both forks
/// are the latest, so a killed philosopher, or one whose lease has expired, cannot count a meal.
///
/// Each philosopher acquires the fork with the lower number first. At the end each has eaten the given number
/// of meals, and all forks are free.
/// @return The exit status for main().
int give_shared_dinner(const sharing& table, const std::vector<std::string>& names,
                       const simulation_options& options);

}  // namespace examples::dinner

#endif
