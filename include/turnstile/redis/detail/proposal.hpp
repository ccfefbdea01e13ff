// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_PROPOSAL_HPP
#define TURNSTILE_REDIS_DETAIL_PROPOSAL_HPP

#include <string>
#include <utility>
#include <vector>

namespace turnstile::redis::detail {

/// A transaction in the words of the server, which can carry it out without a section.
struct proposal
{
    /// See lua/transact.lua.
    struct step
    {
        /// The signs that a comparison allows (`=`, `<>`, `<`, `<=`, `>`, `>=`), or `add` or `set`.
        std::string what;
        std::string field;
        /// With an equals sign before it; empty for none.
        std::string value;
        /// What counts if there is no such field, in the same form.
        std::string otherwise;
        /// Between what a number has to be; or which texts differ from the value for certain, all if both are
        /// empty.
        std::string least;
        std::string most;
    };

    /// In this order.
    std::vector<step> steps;
    /// The conditions that are signalled then, as the server knows them, and whether all sleepers are.
    std::vector<std::pair<std::string, bool>> signals;
    /// What it waits on if something that it requires does not hold, as the server knows it; empty if it does not.
    std::string condition;
    /// What has become of it, when the operation has ended without a lock.
    bool carried_out = false;
};

}  // namespace turnstile::redis::detail

#endif
