// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCK_PROCESS_HPP
#define TURNSTILE_TEST_SUPPORT_LOCK_PROCESS_HPP

#include <string>
#include <support/redis_server.hpp>
#include <sys/types.h>
#include <vector>

namespace turnstile::test {

/**
 * @brief A process with its own session, which executes commands of the test, and can be killed
 *        and stopped.
 *
 * Commands and replies:
 *
 *     lock NAME      held NAME TOKEN      when it is granted; failed NAME TEXT
 *     unlock NAME    released NAME ok     or the text of the error
 *     write NAME     accepted NAME        by the register of that name, see write_register()
 *                    refused NAME         because of a higher fencing token
 *     valid NAME     valid NAME yes       the guard's valid(); or no
 *                    lost NAME            when a lock is lost
 *
 * For a semaphore, which is created with CAPACITY units if it does not exist (a NAME has one kind of
 * object only):
 *
 *     acquire NAME CAPACITY UNITS         replies as lock
 *                                         (keeps its earlier permits; unlock releases the latest)
 *     take NAME CAPACITY UNITS            taken NAME ok
 *     add NAME CAPACITY UNITS             added NAME ok
 *
 * For a shared mutex, with the replies of lock:
 *
 *     lock_exclusive NAME
 *     lock_shared NAME
 *     lock_upgrade NAME
 *     upgrade NAME                        makes a held lock exclusive
 *
 * For a monitor, whose state is a reading_room:
 *
 *     enter NAME     entered NAME ok      a critical section has contributed a reader
 *     counts NAME    counts NAME yes      the contribution's valid(); or no
 *     leave NAME     left NAME yes        a critical section has withdrawn it; or no
 *                    gone NAME            when the contribution is lost
 *
 * At any time:
 *
 *                    log TEXT             a log line of the session
 *
 * The variable TURNSTILE_LOCK_PROGRAM selects the lock_program of another version of Turnstile.
 */
class lock_process
{
public:
    /// The URL configures its session; its writes go to the server directly.
    lock_process(const redis_server& server, const std::string& url);
    lock_process(const lock_process&) = delete;
    lock_process& operator=(const lock_process&) = delete;
    /// Kills it.
    ~lock_process();

    [[nodiscard]] pid_t pid() const { return pid_; }

    /// Sends a line.
    void send(const std::string& line) const;
    /// Waits for a line that begins with a text, removes it, and returns the rest of it. Throws if the
    /// line does not come in time.
    std::string hear(const std::string& beginning);
    /// Whether such a line has come. It is not removed.
    [[nodiscard]] bool has_said(const std::string& beginning);
    /// send() and hear().
    std::string ask(const std::string& line, const std::string& beginning);

    /// Sends SIGKILL and waits for the end. Returns whether the signal ended the process.
    bool kill();
    /// Sends SIGSTOP and waits until the process is stopped. Returns whether it is.
    [[nodiscard]] bool stop() const;
    /// Sends SIGCONT.
    void go_on() const;

private:
    void read(int timeout);
    /// The lines that hear() has not removed.
    [[nodiscard]] std::string said() const;
    [[nodiscard]] std::vector<std::string>::iterator find(const std::string& beginning);

    pid_t pid_ = 0;
    int socket_ = -1;
    std::string rest_;
    std::vector<std::string> lines_;
    bool has_ended_ = false;
};

/// Writes to a register in the server that remembers the highest fencing token and rejects lower ones.
/// Returns whether it accepted the write.
bool write_register(const redis_server& server, const std::string& name, std::uint64_t fence);

/// The same for a process that knows only the server's socket.
bool write_register(const std::filesystem::path& unix_socket, const std::string& name,
                    std::uint64_t fence);

}  // namespace turnstile::test

#endif
