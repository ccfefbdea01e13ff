// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "script_engine.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <lua.hpp>
#include <sstream>
#include <stdexcept>

#ifndef TURNSTILE_LUA_DIR
#error "TURNSTILE_LUA_DIR names the folder of the scripts"
#endif

namespace turnstile::test {

namespace {

using kind = redis_reply::kind;

// Lua reports an error by longjmp, which skips destructors. So no object with a destructor may be alive
// where a function of Lua's is called that can fail. Memory never runs out here.

/// The text that Redis makes of a Lua number in an argument.
std::string to_argument(double number)
{
    std::array<char, 40> digits{};
    std::snprintf(digits.data(), digits.size(), "%.17g", number);
    return digits.data();
}

void push(lua_State* lua, const redis_reply& reply)
{
    switch (reply.what)
    {
    case kind::nil:
        return lua_pushboolean(lua, 0);
    case kind::integer:
        return lua_pushnumber(lua, static_cast<double>(reply.number));
    case kind::string:
        return lua_pushlstring(lua, reply.text.data(), reply.text.size());
    case kind::status:
    case kind::error:
        lua_createtable(lua, 0, 1);
        lua_pushlstring(lua, reply.text.data(), reply.text.size());
        return lua_setfield(lua, -2, reply.what == kind::status ? "ok" : "err");
    case kind::array:
        break;
    }
    luaL_checkstack(lua, 4, "nested too deeply");
    lua_createtable(lua, static_cast<int>(reply.elements.size()), 0);
    int index = 0;
    for (const redis_reply& each : reply.elements)
    {
        push(lua, each);
        lua_rawseti(lua, -2, ++index);
    }
}

std::string string_at(lua_State* lua, int index)
{
    std::size_t size = 0;
    const char* const text = lua_tolstring(lua, index, &size);
    return {text, size};
}

/// Pops the value on top of the stack, and converts it as Redis does.
redis_reply pop(lua_State* lua)
{
    redis_reply result;
    switch (lua_type(lua, -1))
    {
    case LUA_TSTRING:
        result = redis_reply::of(string_at(lua, -1));
        break;
    case LUA_TNUMBER:
        result = redis_reply::of(static_cast<std::int64_t>(lua_tonumber(lua, -1)));
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1) != 0)
            result = redis_reply::of(1);
        break;
    case LUA_TTABLE:
        for (const auto& [field, what] : {std::pair("err", kind::error), {"ok", kind::status}})
        {
            lua_pushstring(lua, field);
            lua_rawget(lua, -2);
            if (lua_type(lua, -1) == LUA_TSTRING)
                result = {what, 0, string_at(lua, -1), {}};
            lua_pop(lua, 1);
        }
        if (result.what != kind::nil)
            break;
        result.what = kind::array;
        for (int i = 1;; ++i)
        {
            lua_rawgeti(lua, -1, i);
            if (lua_isnil(lua, -1))
            {
                lua_pop(lua, 1);
                break;
            }
            result.elements.push_back(pop(lua));
        }
        break;
    default:
        break;
    }
    lua_pop(lua, 1);
    return result;
}

int no_global(lua_State* lua)
{
    return luaL_error(lua, "a script uses the global variable '%s'", lua_tostring(lua, 2));
}

}  // namespace

struct script_engine::interpreter
{
    interpreter()
        : state(luaL_newstate())
    {
        for (const auto& [name, open] : {std::pair<const char*, lua_CFunction>("", luaopen_base),
                                         {"table", luaopen_table},
                                         {"string", luaopen_string},
                                         {"math", luaopen_math}})
        {
            lua_pushcfunction(state, open);
            lua_pushstring(state, name);
            lua_call(state, 1, 0);
        }
        lua_createtable(state, 0, 2);
        for (const auto& [name, function] : {std::pair("call", &interpreter::call),
                                             {"pcall", &interpreter::pcall},
                                             {"acl_check_cmd", &interpreter::acl_check_cmd},
                                             {"error_reply", &interpreter::error_reply}})
        {
            lua_pushlightuserdata(state, this);
            lua_pushcclosure(state, function, 1);
            lua_setfield(state, -2, name);
        }
        lua_setglobal(state, "redis");
        for (const char* name : {"KEYS", "ARGV"})
        {
            lua_createtable(state, 0, 0);
            lua_setglobal(state, name);
        }
        // From here on, all variables have to be local, as in Redis.
        lua_createtable(state, 0, 2);
        for (const char* event : {"__index", "__newindex"})
        {
            lua_pushcfunction(state, no_global);
            lua_setfield(state, -2, event);
        }
        lua_setmetatable(state, LUA_GLOBALSINDEX);
    }

    ~interpreter() { lua_close(state); }
    interpreter(const interpreter&) = delete;
    interpreter& operator=(const interpreter&) = delete;

    void set_list(const char* name, const std::vector<std::string>& values) const
    {
        lua_createtable(state, static_cast<int>(values.size()), 0);
        int index = 0;
        for (const std::string& each : values)
        {
            lua_pushlstring(state, each.data(), each.size());
            lua_rawseti(state, -2, ++index);
        }
        lua_pushstring(state, name);
        lua_insert(state, -2);
        lua_rawset(state, LUA_GLOBALSINDEX);
    }

    /// Executes the command on the stack and pushes its reply. Returns whether the reply is an error.
    bool execute(lua_State* lua)
    {
        words.clear();
        for (int i = 1; i <= lua_gettop(lua); ++i)
            if (lua_type(lua, i) == LUA_TNUMBER)
                words.push_back(to_argument(lua_tonumber(lua, i)));
            else if (lua_type(lua, i) == LUA_TSTRING)
                words.push_back(string_at(lua, i));
            else
            {
                push(lua, redis_reply::error(
                              "ERR Lua redis lib command arguments must be strings or integers"));
                return true;
            }
        redis_reply reply;
        try
        {
            reply = store->run(words);
        }
        catch (const unknown_command& e)
        {
            unknown = e.what();
            reply = redis_reply::error(unknown);
        }
        effort += 1 + reply.elements.size();
        push(lua, reply);
        return reply.is_error();
    }

    static interpreter& self(lua_State* lua)
    {
        return *static_cast<interpreter*>(lua_touserdata(lua, lua_upvalueindex(1)));
    }

    static int call(lua_State* lua)
    {
        if (self(lua).execute(lua))
            return lua_error(lua);
        return 1;
    }

    static int pcall(lua_State* lua)
    {
        self(lua).execute(lua);
        return 1;
    }

    /// Scripts check names in lower case.
    static int acl_check_cmd(lua_State* lua)
    {
        const auto equal = [](char checked, char refused)
        { return std::toupper(static_cast<unsigned char>(checked)) == refused; };
        lua_pushboolean(
            lua,
            std::ranges::equal(string_at(lua, 1), self(lua).store->refused_command, equal) ? 0 : 1);
        return 1;
    }

    static int error_reply(lua_State* lua)
    {
        push(lua, redis_reply::error(string_at(lua, 1)));
        return 1;
    }

    lua_State* state;
    std::map<std::string, int, std::less<>> scripts;
    // The state of the current command.
    redis_store* store = nullptr;
    std::vector<std::string> words;
    std::string unknown;
    // The effort of the current script.
    std::size_t effort = 0;
};

// --- the scripts --------------------------------------------------------------------------------

namespace {

/// The folder of the scripts. scripts/mutate sets another one in the environment.
std::filesystem::path script_folder()
{
    // No thread changes the environment meanwhile.
    const char* other = std::getenv("TURNSTILE_LUA_DIR");  // NOLINT(concurrency-mt-unsafe)
    return other != nullptr ? other : TURNSTILE_LUA_DIR;
}

// The file of pool_acquire is pool/acquire.lua.
std::filesystem::path path_of(std::string_view name)
{
    std::filesystem::path path = script_folder();
    if (const std::size_t end = name.find('_'); end != std::string_view::npos)
    {
        path /= name.substr(0, end);
        name.remove_prefix(end + 1);
    }
    return path / (std::string(name) + ".lua");
}

/// Empty if there is none.
std::string prologue_of(std::string_view name)
{
    const std::size_t end = name.find('_');
    const std::string result =
        std::string(end == std::string_view::npos ? "" : name.substr(0, end + 1)) + "prologue";
    return std::filesystem::exists(path_of(result)) ? result : std::string();
}

}  // namespace

bool simulations_run_in_full() noexcept
{
    return TURNSTILE_SIMULATIONS_IN_FULL;
}

std::string script_file(std::string_view name)
{
    const auto path = path_of(name);
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw std::runtime_error("there is no file " + path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> script_names()
{
    std::vector<std::string> result;
    const std::filesystem::path root = script_folder();
    for (const auto& each : std::filesystem::recursive_directory_iterator(root))
    {
        if (each.path().extension() != ".lua" || each.path().stem() == "prologue" ||
            each.path().stem() == "common")
            continue;
        std::string name = each.path().lexically_relative(root).replace_extension().string();
        std::ranges::replace(name, '/', '_');
        result.push_back(std::move(name));
    }
    std::ranges::sort(result);
    return result;
}

namespace {

std::string patched_file(std::string_view name, const std::vector<script_patch>& patches)
{
    std::string text = script_file(name);
    for (const script_patch& each : patches)
    {
        if (each.file != name)
            continue;
        const std::size_t at = text.find(each.piece);
        if (at == std::string::npos || text.find(each.piece, at + 1) != std::string::npos)
            throw std::runtime_error(each.file + ".lua does not have exactly once: " + each.piece);
        text.replace(at, each.piece.size(), each.replacement);
    }
    return text;
}

// The following functions do the same as those of cmake/embed_lua.cmake.

std::string without_comments(const std::string& text)
{
    std::string result;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
    {
        const std::size_t begin = line.find_first_not_of(' ');
        if (begin != std::string::npos && !std::string_view(line).substr(begin).starts_with("--"))
            result += line.substr(0, line.find("  --")) + '\n';
    }
    return result;
}

bool calls(std::string_view text, const std::string& function)
{
    const auto continues_a_name = [](unsigned char c)
    { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
    const std::string call = function + '(';
    for (std::size_t at = 0; (at = text.find(call, at + 1)) != std::string_view::npos;)
        if (!continues_a_name(static_cast<unsigned char>(text[at - 1])))
            return true;
    return false;
}

std::string without_unused_functions(std::string above, const std::string& body)
{
    constexpr std::string_view keywords = "\nlocal function ";
    std::string below;
    for (std::size_t at = 0; (at = above.rfind(keywords)) != std::string::npos;)
    {
        const std::size_t name = at + keywords.size();
        const std::string function = above.substr(name, above.find('(', name) - name);
        const std::size_t begin = at + 1;
        const std::size_t end = above.find("\nend\n", begin) + 5;
        const bool is_called = calls(above.substr(end) + below + body, function);
        below.insert(0, above, is_called ? begin : end);
        above.resize(begin);
    }
    return above + below;
}

}  // namespace

std::string script_text(std::string_view name, const std::vector<script_patch>& patches)
{
    std::string body = patched_file(name, patches);
    constexpr std::string_view mark = "-- flags:";
    const std::size_t at = body.find(mark);
    if (at == std::string::npos)
        throw std::runtime_error(std::string(name) + ".lua does not name its flags");
    std::string flags = body.substr(at + mark.size(), body.find('\n', at) - at - mark.size());
    std::erase(flags, ' ');
    std::string result = flags == "none" ? "#!lua\n" : "#!lua flags=" + flags + '\n';
    if (const std::string prologue = prologue_of(name); !prologue.empty())
    {
        const std::size_t place = body.find("-- common.lua and prologue.lua stand here\n");
        if (place != std::string::npos)
        {
            result += without_comments(body.substr(0, place));
            body.erase(0, place);
        }
        body = without_comments(body);
        result += without_unused_functions(
            without_comments(patched_file("common", patches) + patched_file(prologue, patches)),
            body);
    }
    return result + without_comments(body);
}

namespace {

/// The text of a script without patches. Most tests make many engines, and each one runs few scripts.
const std::string& original_text(std::string_view name)
{
    static std::map<std::string, std::string, std::less<>> texts;
    const auto known = texts.find(name);
    return known != texts.end() ? known->second
                                : texts.emplace(name, script_text(name)).first->second;
}

}  // namespace

script_engine::script_engine(const std::vector<script_patch>& patches)
    : lua_(std::make_unique<interpreter>())
{
    if (!patches.empty())
        for (const std::string& name : script_names())
            add(name, script_text(name, patches));
}

script_engine::~script_engine() = default;

void script_engine::add(const std::string& name, const std::string& text)
{
    lua_State* const lua = lua_->state;
    // Redis removes the first line.
    const std::string body = text.starts_with("#!") ? text.substr(text.find('\n')) : text;
    if (luaL_loadbuffer(lua, body.data(), body.size(), ('@' + name).c_str()) != 0)
        throw std::runtime_error(string_at(lua, -1));
    lua_->scripts[name] = luaL_ref(lua, LUA_REGISTRYINDEX);
}

redis_reply script_engine::run(redis_store& store, std::string_view name,
                               const std::vector<std::string>& keys,
                               const std::vector<std::string>& arguments)
{
    lua_State* const lua = lua_->state;
    auto script = lua_->scripts.find(name);
    if (script == lua_->scripts.end())
    {
        add(std::string(name), original_text(name));
        script = lua_->scripts.find(name);
    }
    lua_->store = &store;
    lua_->unknown.clear();
    lua_->effort = 0;
    lua_->set_list("KEYS", keys);
    lua_->set_list("ARGV", arguments);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->second);
    const int status = lua_pcall(lua, 0, 1, 0);
    redis_reply reply = pop(lua);
    if (!lua_->unknown.empty())
        throw unknown_command(lua_->unknown);
    if (status != 0 && reply.what == kind::string)
        reply = redis_reply::error("ERR " + reply.text);
    return reply;
}

std::size_t script_engine::effort() const
{
    return lua_->effort;
}

}  // namespace turnstile::test
