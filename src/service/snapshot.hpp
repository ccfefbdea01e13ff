// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_SNAPSHOT_HPP
#define TURNSTILE_SERVICE_SNAPSHOT_HPP

#include "service/memory_store.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>

namespace turnstile::service {

/**
 * @brief The file that keeps the semaphores and permits of a @ref memory_store while no server runs.
 *
 * Each line is a checksum (CRC-32, 8 hexadecimal digits), a space and a JSON object. The first one names the version
 * of the format and the number of lines that save() has written. The others are objects of @ref stored_state. The
 * file begins with one for each semaphore and permit. Each later change appends one, before its request is answered.
 * A start replaces the file, and so does a long history.
 *
 * A process that is killed may leave an incomplete last line, which is ignored. A changed line is an error; a
 * missing line of the history is not noticed.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context.
 */
class snapshot
{
public:
    /// Reads the file into @p state, which must be empty, and records the changes of @p state from then on. Throws
    /// a runtime_error that names the file and the rule if the file is damaged, cannot be written, or is in use by
    /// another process.
    snapshot(std::string path, memory_store& state);

    snapshot(const snapshot&) = delete;
    snapshot& operator=(const snapshot&) = delete;

    ~snapshot();

    /// Makes sure that the file survives a crash of the machine, too. Throws a runtime_error if that fails.
    void sync();

private:
    void lock();
    void load();
    /// Replaces the file by one without history.
    void save();
    void append(const stored_state& stored);
    [[nodiscard]] std::runtime_error failure(const std::string& rule) const;

    std::string path_;
    memory_store& store_;
    int lock_ = -1;
    int file_ = -1;
    std::size_t saved_ = 0;
    std::size_t appended_ = 0;
};

}  // namespace turnstile::service

#endif
