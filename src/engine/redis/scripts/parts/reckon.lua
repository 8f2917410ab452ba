-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts that give fair locks: when a waiter of ours counts as dead.
--
-- Locals queue, timeouts, now (see parts/queue.lua), wait (how long a waiter of ours is believed to
--        live without a word, in ms), ttl (of the lock)
-- Result the locals `reckon` and `limit`
--
-- Why so: what a waiter of Redisson will take off is its own wait: `usual` for its lock(), anything
-- for its tryLock(). The server does not have it. It has Redisson's sum, by which the times of
-- Redisson's waiters are the end of the lease that the first of them saw and all their waits. The
-- lease has been renewed since, nobody knows for how long, but for less than the wait of the first
-- one, or that one would be out of time. So they take off no less than their sum as if it began
-- with the lease of today, and no more than the sum from now and one wait. Between these it is
-- `usual` for each. A UUID of version 8 is one of ours (base/random.c).
--
-- Looking through the queue takes the longer the longer it is, so it is done only if somebody of
-- Redisson's stands there: who was reckoned to have nobody of them before it has `wait` at most,
-- and nobody gets in before it. No more than the first thousand are looked at.
local usual = 300000
local soon = now + wait
local function is_ours(member)
    return member:sub(15, 15) == '8'
end
local function is_plain(dead_at)
    return dead_at and tonumber(dead_at) > now and tonumber(dead_at) <= soon
end
-- `dead_at` is its time so far, if it stands in the queue.
local function reckon(owner, dead_at)
    if not dead_at then
        local last = redis.call('LINDEX', queue, -1)
        if not last then
            return soon
        end
        dead_at = is_ours(last) and redis.call('ZSCORE', timeouts, last)
    end
    if is_plain(dead_at) then
        return soon
    end
    local theirs, latest = 0, now
    for _, member in ipairs(redis.call('LRANGE', queue, 0, 999)) do
        if member == owner then
            break
        end
        if not is_ours(member) then
            theirs = theirs + 1
            latest = math.max(latest, tonumber(redis.call('ZSCORE', timeouts, member) or 0))
        end
    end
    if theirs == 0 then
        return soon
    end
    local sum = latest - now
    return soon + math.max(sum - math.max(ttl, 0), math.min(sum + usual, theirs * usual))
end
-- Who stands first, and those of ours right behind.
local function limit(head)
    if not is_ours(head) or is_plain(redis.call('ZSCORE', timeouts, head)) then
        return
    end
    for _, member in ipairs(redis.call('LRANGE', queue, 0, 999)) do
        if not is_ours(member) then
            break
        end
        if tonumber(redis.call('ZSCORE', timeouts, member) or 0) > soon then
            redis.pcall('ZADD', timeouts, string.format('%.0f', soon), member)
        end
    end
end
