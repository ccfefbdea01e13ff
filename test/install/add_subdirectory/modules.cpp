// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A program and a shared library, both with hidden symbols, share the state of the library.

#include "shared_state.hpp"

int main()
{
    return state_of_this_module() == state_of_library() ? 0 : 1;
}
