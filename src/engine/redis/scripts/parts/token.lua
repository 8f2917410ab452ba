-- SPDX-License-Identifier: Apache-2.0
--
-- Part of acquire.lua and pass.lua: the token of a grant, in the local `token`.
--
-- KEYS   1 the token counter
-- Locals asked (the tenure was granted before, and is given the same token), counter_ttl (how long
--        a new counter lives in s; 0: ever), floor (what no token may be below: the server's time
--        in us when the client connected)
-- Result returned only if the counter's key is none of ours: the error TOKENTYPE, so that nobody
--        takes the lock's own key for the wrong one
--
-- Why so: a counter below the floor was new, lost, set back by a restart from an old snapshot, or
-- Redisson's own; it goes on from the server's clock in microseconds, which no counter has reached
-- yet. That number is put together as text, because Lua would lose digits of it when it makes one.
local token = redis.pcall(asked and 'GET' or 'INCR', KEYS[1])
if type(token) == 'table' then
    return token.err:find('^WRONGTYPE') and redis.error_reply('TOKENTYPE not a counter') or token
end
token = tonumber(token or '') or 0
if token < tonumber(floor) then
    local now = redis.call('TIME')
    local text = now[1] .. string.rep('0', 6 - #now[2]) .. now[2]
    if tonumber(text) > token then
        if counter_ttl == '0' then
            redis.call('SET', KEYS[1], text)
        else
            redis.call('SET', KEYS[1], text, 'EX', counter_ttl)
        end
        token = tonumber(text)
    end
end
