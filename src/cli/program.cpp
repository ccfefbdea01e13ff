// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "cli/program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace turnstile::cli {

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts)
{
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (std::string& text : texts)
        result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

bool has_terminal()
{
    const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0)
        ::close(terminal);
    return terminal >= 0;
}

}  // namespace

std::set<int> inheritable_descriptors()
{
    std::set<int> found;
    std::error_code no_proc;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", no_proc))
    {
        const int descriptor = std::stoi(entry.path().filename());
        if (::fcntl(descriptor, F_GETFD) == 0)
            found.insert(descriptor);
    }
    return found;
}

program::program(std::vector<std::string> command, std::vector<std::string> variables,
                 const std::set<int>& descriptors, const signal_settings& signals)
    : has_own_group_(!has_terminal())
{
    const std::vector<std::string> own = variables;
    for (char** inherited = environ; *inherited != nullptr; ++inherited)
    {
        const std::string_view variable(*inherited);
        const std::string_view name = variable.substr(0, variable.find('=') + 1);
        // Of two variables with the same name, some programs take the last one.
        if (std::ranges::none_of(own,
                                 [&](const std::string& each) { return each.starts_with(name); }))
            variables.emplace_back(variable);
    }
    const std::vector<char*> arguments = pointers_to(command);
    const std::vector<char*> environment = pointers_to(variables);
    // Boost.Redis opens a unix socket in such a way that the program would inherit the connection.
    for (const int own_descriptor : inheritable_descriptors())
        if (!descriptors.contains(own_descriptor))
            ::fcntl(own_descriptor, F_SETFD, FD_CLOEXEC);
    // The child reports an error of exec through it. A successful exec closes it.
    std::array<int, 2> failure{};
    if (::pipe2(failure.data(), O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category());
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0)
    {
        // Between fork and exec, only async-signal-safe functions are allowed.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent)
            ::_exit(status_of_signal(SIGKILL));
        if (has_own_group_)
            ::setpgid(0, 0);
        ::signal(SIGPIPE, signals.pipe);
        ::pthread_sigmask(SIG_SETMASK, &signals.mask, nullptr);
        ::execvpe(arguments[0], arguments.data(), environment.data());
        const int error = errno;
        [[maybe_unused]] const auto written = ::write(failure[1], &error, sizeof error);
        ::_exit(127);
    }
    int error = pid_ < 0 ? errno : 0;
    ::close(failure[1]);
    if (pid_ > 0 && ::read(failure[0], &error, sizeof error) > 0)
        ::waitpid(pid_, nullptr, 0);
    ::close(failure[0]);
    if (error != 0)
        throw std::system_error(error, std::generic_category());
}

void program::send(int signal) const
{
    if (!status_)
        ::kill(has_own_group_ ? -pid_ : pid_, signal);
}

void program::kill_rest() const
{
    if (has_own_group_)
        ::kill(-pid_, SIGKILL);
}

std::optional<int> program::status()
{
    siginfo_t end{};
    // It remains as a zombie, so that no other process gets its number, which is that of its group.
    if (!status_ &&
        ::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        end.si_pid == pid_)
    {
        signal_ = end.si_code == CLD_EXITED ? 0 : end.si_status;
        status_ = signal_ == 0 ? end.si_status : status_of_signal(signal_);
    }
    return status_;
}

}  // namespace turnstile::cli
