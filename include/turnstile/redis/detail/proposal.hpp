// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_PROPOSAL_HPP
#define TURNSTILE_REDIS_DETAIL_PROPOSAL_HPP

#include <string>
#include <utility>
#include <vector>

namespace turnstile::redis::detail {

/// A transaction in the format of the server, which can execute it without a section.
struct proposal
{
    /// See lua/transact.lua.
    struct step
    {
        /// The comparison (`=`, `<>`, `<`, `<=`, `>`, `>=`), or `add` or `set`.
        std::string what;
        std::string field;
        /// `=` and the value; empty for none.
        std::string value;
        /// The value that a missing field has, in the same form.
        std::string otherwise;
        /// The range of a number. Otherwise, two texts that are known to differ from the value; any third one may
        /// stand for the same value. If both are empty, every other text differs.
        std::string least;
        std::string most;
    };

    /// In order of execution.
    std::vector<step> steps;
    /// The conditions to notify afterwards, by the server's names, and whether to notify all of their
    /// waiters.
    std::vector<std::pair<std::string, bool>> notifications;
    /// The condition to wait on if a requirement does not hold, by the server's name; empty for none.
    std::string condition;
    /// Whether the server executed it, when the operation has completed without a grant.
    bool executed = false;
};

}  // namespace turnstile::redis::detail

#endif
