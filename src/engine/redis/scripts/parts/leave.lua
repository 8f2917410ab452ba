-- SPDX-License-Identifier: Apache-2.0
--
-- Part of acquire_fair.lua and release_fair.lua: take a waiter out of the queue.
--
-- Locals queue, timeouts, now (see parts/queue.lua), wait (how long a waiter of ours is believed to
--        live without a word, in ms)
-- Result the local `leave`
--
-- Why so: acquire_fair.lua says when a time was reckoned from that of the one before; then those
-- behind were given `wait` more because of it, and it is taken back. Nobody loses what it needs: a
-- waiter of ours that has just asked has `wait` left and keeps that.
local function leave(owner)
    local soon = now + wait
    local dead_at = redis.call('ZSCORE', timeouts, owner)
    if dead_at and tonumber(dead_at) > soon then
        local behind = false
        for _, member in ipairs(redis.call('LRANGE', queue, 0, -1)) do
            local its = behind and redis.call('ZSCORE', timeouts, member)
            if its and tonumber(its) > soon then
                local less = string.format('%.0f', math.max(tonumber(its) - wait, soon))
                redis.call('ZADD', timeouts, less, member)
            end
            behind = behind or member == owner
        end
    end
    redis.call('ZREM', timeouts, owner)
    redis.call('LREM', queue, 0, owner)
end
