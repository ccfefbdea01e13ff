// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_CLI_SIGNALS_HPP
#define TURNSTILE_CLI_SIGNALS_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <csignal>
#include <functional>
#include <sys/signalfd.h>

#include "cli/program.hpp"

namespace turnstile::cli {

/**
 * @brief Receives the signals of this process, with their senders.
 *
 * boost::asio::signal_set does not report the sender. A signal of the terminal reaches the program, too, and must not
 * be forwarded.
 */
class signals
{
public:
    /// Blocks the signals that `run` forwards, unless they are ignored, and SIGCHLD, for this thread and the threads that
    /// it starts later. @p received is called on the executor for each of them. SIGPIPE is ignored from now on.
    signals(const boost::asio::any_io_executor& executor,
            std::function<void(const signalfd_siginfo&)> received);

    /// The settings of this process before the construction.
    [[nodiscard]] const signal_settings& former() const noexcept { return former_; }

private:
    void receive();

    signal_settings former_;
    std::function<void(const signalfd_siginfo&)> received_;
    boost::asio::posix::stream_descriptor source_;
    signalfd_siginfo next_{};
};

}  // namespace turnstile::cli

#endif
