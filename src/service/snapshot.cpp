// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/snapshot.hpp"

#include "service/decode.hpp"
#include "service/log.hpp"

#include <algorithm>
#include <boost/crc.hpp>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace turnstile::service {

namespace {

constexpr std::int64_t format_version = 1;

/// The least number of bytes of history for which the file is replaced.
constexpr std::size_t long_history = std::size_t(16) << 20U;

constexpr const char* remedy =
    "restore the file from a copy, or move it away to start without semaphores";

std::string reason()
{
    return std::generic_category().message(errno);
}

std::string checksum(std::string_view text)
{
    boost::crc_32_type sum;
    sum.process_bytes(text.data(), text.size());
    return fmt::format("{:08x}", sum.checksum());
}

void append_line(std::string& text, const std::string& content)
{
    text.append(checksum(content)).append(" ").append(content).append("\n");
}

std::string encode(const stored_state& stored)
{
    std::string text = "{\"name\":" + quoted(stored.name);
    const auto add = [&](const char* name, auto number)
    { text.append(",\"").append(name).append("\":").append(std::to_string(number)); };
    if (stored.value)
        add("value", *stored.value);
    if (!stored.permit.empty())
        text.append(",\"permit\":\"").append(stored.permit).append("\"");
    if (stored.units != 0)
    {
        add("units", stored.units);
        add("lease", stored.lease.count());
        add("until",
            std::chrono::duration_cast<std::chrono::milliseconds>(stored.until.time_since_epoch())
                .count());
        add("token", stored.token);
    }
    return text + '}';
}

/// A whole number from 0 to largest_value.
std::optional<std::int64_t> number_in(const fields& line, std::string_view name)
{
    const auto* const found = line.if_contains(name);
    const auto* const number = found == nullptr ? nullptr : found->if_int64();
    if (number == nullptr || *number < 0 || *number > largest_value)
        return std::nullopt;
    return *number;
}

/// The state in a line, without the semaphore's name and the permit's id.
stored_state to_state(const fields& line)
{
    stored_state state;
    state.value = number_in(line, "value");
    state.units = number_in(line, "units").value_or(0);
    state.lease = std::chrono::milliseconds(number_in(line, "lease").value_or(0));
    state.until = std::chrono::system_clock::time_point(
        std::chrono::milliseconds(number_in(line, "until").value_or(0)));
    state.token = static_cast<std::uint64_t>(number_in(line, "token").value_or(0));
    return state;
}

/// Follows symbolic links: save() would replace the link, and lock() has to lock the same file for each link.
std::string to_file(std::filesystem::path path)
{
    std::error_code ignored;
    // More links than this are a loop, which cannot be opened.
    for (int i = 0; i != 40 && std::filesystem::is_symlink(path, ignored); ++i)
        path = path.parent_path() / std::filesystem::read_symlink(path, ignored);
    return path;
}

bool write_all(int file, std::string_view text)
{
    while (!text.empty())
    {
        const ssize_t size = ::write(file, text.data(), text.size());
        if (size < 0 && errno != EINTR)
            return false;
        text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    return true;
}

}  // namespace

snapshot::snapshot(std::string path, memory_store& state)
    : path_(to_file(std::move(path)))
    , store_(state)
{
    lock();
    load();
    save();
    store_.record_changes([this](const stored_state& stored) { append(stored); });
}

snapshot::~snapshot()
{
    store_.record_changes({});
    ::close(file_);
    ::close(lock_);
}

void snapshot::sync()
{
    if (::fsync(file_) != 0)
        throw failure("cannot write it to the disk: " + reason());
}

void snapshot::lock()
{
    std::error_code missing;
    const auto found = std::filesystem::status(path_, missing);
    if (!missing && !std::filesystem::is_regular_file(found))
        throw failure("it is not a regular file");
    const std::string name = path_ + ".lock";
    lock_ = ::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (lock_ < 0)
        throw failure("cannot open \"" + name + "\": " + reason());
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
        throw failure("another process uses it");
}

void snapshot::load()
{
    std::ifstream file(path_, std::ios::binary);
    if (!file && errno == ENOENT)
        return;
    if (!file)
        throw failure("cannot read it: " + reason());
    // By the names of the semaphores, and then by the ids of the permits. The semaphore itself has no id.
    std::map<std::string, std::map<std::string, stored_state>> found;
    std::int64_t number = 0;
    std::int64_t written_at_once = 1;
    for (std::string line; std::getline(file, line);)
    {
        if (file.eof())
        {
            log(log_level::warning, "ignored an incomplete last line", {{"snapshot", path_}});
            break;
        }
        const auto damaged = [&, at = ++number](const std::string& rule)
        { return failure("line " + std::to_string(at) + " is damaged: " + rule + "; " + remedy); };
        const std::string content = line.size() < 9 ? std::string() : line.substr(9);
        if (line.compare(0, 9, checksum(content) + ' ') != 0)
            throw damaged("its checksum does not match");
        const auto decoded = decode_json(content);
        if (!decoded)
            throw damaged("it is not a JSON object");
        if (number == 1)
        {
            const auto lines = number_in(*decoded, "lines");
            if (number_in(*decoded, "turnstile") != format_version || !lines)
                throw damaged("it is not a snapshot of version " + std::to_string(format_version));
            written_at_once = *lines;
            store_.skip_tokens(
                static_cast<std::uint64_t>(number_in(*decoded, "token").value_or(0)));
            continue;
        }
        const auto* const name = text_in(*decoded, "name");
        if (name == nullptr || name->empty())
            throw damaged("it names no semaphore");
        const stored_state state = to_state(*decoded);
        store_.skip_tokens(state.token);
        if (!state.value)
        {
            found.erase(std::string(*name));
            continue;
        }
        auto& states = found[std::string(*name)];
        const auto* const permit = text_in(*decoded, "permit");
        const std::string id(permit == nullptr ? "" : permit->c_str());
        if (state.units == 0)
            states.erase(id);
        else
            states[id] = state;
        // Each line has the semaphore's value.
        states[""] = state;
    }
    // The rest of the file is unknown, and save() would replace it.
    if (file.bad())
        throw failure("cannot read it: " + reason());
    if (number < written_at_once)
        throw failure("it is damaged: it has " + std::to_string(number) + " of at least " +
                      std::to_string(written_at_once) + " lines; " + remedy);
    for (auto& [name, states] : found)
    {
        for (auto& [id, state] : states)
        {
            state.name = name;
            state.permit = id;
            store_.restore(state);
        }
    }
}

void snapshot::save()
{
    std::string states;
    std::int64_t lines = 1;
    store_.describe(
        [&](const stored_state& stored)
        {
            append_line(states, encode(stored));
            ++lines;
        });
    std::string text;
    append_line(text, "{\"turnstile\":" + std::to_string(format_version) +
                          ",\"lines\":" + std::to_string(lines) +
                          ",\"token\":" + std::to_string(store_.last_token()) + '}');
    text += states;

    const std::string temporary = path_ + ".new";
    // The ids of permits must not go to a file of another user, or through a link that another user has put there.
    ::unlink(temporary.c_str());
    const int file = ::open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        throw failure("cannot open \"" + temporary + "\": " + reason());
    if (!write_all(file, text) || ::fsync(file) != 0 ||
        ::rename(temporary.c_str(), path_.c_str()) != 0)
    {
        const std::string cause = reason();
        ::close(file);
        // On a full disk, the present file needs that space for its next change.
        ::unlink(temporary.c_str());
        throw failure("cannot replace it by \"" + temporary + "\": " + cause);
    }
    if (file_ >= 0)
        ::close(file_);
    file_ = file;
    // The new name has to survive a crash of the machine, too.
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::fsync(directory);
    ::close(directory);
    saved_ = text.size();
    appended_ = 0;
}

void snapshot::append(const stored_state& stored)
{
    std::string line;
    append_line(line, encode(stored));
    if (!write_all(file_, line))
    {
        // The change is not stored, so no answer may confirm it. All answered changes are stored.
        log(log_level::error, "cannot write the snapshot",
            {{"snapshot", path_}, {"error", reason()}});
        std::_Exit(1);
    }
    appended_ += line.size();
    if (appended_ < std::max(long_history, 4 * saved_))
        return;
    try
    {
        save();
    }
    catch (const std::runtime_error& error)
    {
        // The present file is complete. The next try to replace it follows after the same amount of further history.
        log(log_level::warning, error.what());
        appended_ = 0;
    }
}

std::runtime_error snapshot::failure(const std::string& rule) const
{
    return std::runtime_error("snapshot \"" + path_ + "\": " + rule);
}

}  // namespace turnstile::service
