// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef SHARED_STATE_HPP
#define SHARED_STATE_HPP

#include <array>
#include <turnstile/detail/context_registry.hpp>

/// The addresses of the objects that all modules of a program have to share.
using shared_state = std::array<const void*, 3>;

/// The addresses in the calling module.
inline shared_state state_of_this_module()
{
    using namespace turnstile::detail;
    return {&context_registry::mutex(), &context_registry::id,
            &posting_in_progress::of_this_thread()};
}

/// The addresses in the shared library.
[[gnu::visibility("default")]] shared_state state_of_library();

#endif
