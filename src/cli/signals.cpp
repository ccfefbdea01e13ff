// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "cli/signals.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::cli {

signals::signals(const boost::asio::any_io_executor& executor,
                 std::function<void(const signalfd_siginfo&)> received)
    : received_(std::move(received))
    , source_(executor)
{
    sigset_t handled;
    sigemptyset(&handled);
    for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    {
        // nohup and shells start programs that ignore some signals. A signalfd would receive them.
        struct sigaction inherited{};
        ::sigaction(each, nullptr, &inherited);
        if (inherited.sa_handler != SIG_IGN)
            sigaddset(&handled, each);
    }
    // While it is ignored, the system reports no end of a child.
    std::signal(SIGCHLD, SIG_DFL);
    sigaddset(&handled, SIGCHLD);
    former_.pipe = std::signal(SIGPIPE, SIG_IGN);
    ::pthread_sigmask(SIG_BLOCK, &handled, &former_.mask);
    const int descriptor = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor < 0)
        throw std::system_error(errno, std::generic_category(), "cannot receive signals");
    source_.assign(descriptor);
    receive();
}

void signals::receive()
{
    boost::asio::async_read(source_, boost::asio::buffer(&next_, sizeof next_),
                            [this](const error_code& error, std::size_t)
                            {
                                if (error)
                                    return;
                                received_(next_);
                                receive();
                            });
}

}  // namespace turnstile::cli
