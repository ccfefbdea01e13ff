// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCAL_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_LOCAL_SCENE_HPP

#include <boost/asio/io_context.hpp>
#include <string>
#include <support/attempt.hpp>
#include <support/manual_clock.hpp>
#include <support/start.hpp>

namespace turnstile::test {

/// A way to wait, and a context for all operations. The scenes of local primitives extend it.
struct local_scene
{
    explicit local_scene(path p)
        : how(p)
    {
    }

    /// Launches the operation that @p make returns, and runs all ready handlers.
    template <class T, class Make>
    void start(attempt<T>& a, Make make)
    {
        test::start(how, context, a, make);
    }

    /// Advances the clock, and runs the context.
    void advance(manual_clock::duration by)
    {
        manual_clock::advance(by);
        drain(context);
    }

    path how;
    std::string completed;
    boost::asio::io_context context;
};

}  // namespace turnstile::test

#endif
