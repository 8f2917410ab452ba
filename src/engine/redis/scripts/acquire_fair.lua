-- SPDX-License-Identifier: Apache-2.0
--
-- Give a tenure the fair lock if it is free and nobody stands before the tenure, or if it is the
-- tenure's own already; otherwise let it stand in the queue, if it asks for that.
--
-- KEYS   1 the token counter, 2 the lock, 3 the queue, 4 when who counts as dead
-- ARGV   1 the owner string, 2 the lease in ms, 3 how long a new token counter lives in s
--        (0: ever), 4 what no token may be below (see parts/token.lua), 5 how long a waiter of ours
--        is believed to live without a word in ms, 6 '1': stand in the queue, '0': only try,
--        7 the channel, to which the owner string of who is told is added
-- Result > 0  granted: the token
--        -1   not now, nobody knows for how long (the lock has no TTL)
--        < -2 not now: ask again in -2 - result ms at the latest. If the lock is free it is the
--             turn of somebody else, who is given at most a second before one looks again
--
-- Why so: lock, list and sorted set are Redisson's, so that its waiters and ours stand in one
-- queue. What differs cannot be seen by it:
-- - A waiter of Redisson speaks once and then sleeps, so its time is reckoned for its whole wait
--   behind everybody else's. Ours ask again about every second, so each is only believed to live
--   for `wait` from its last question. A waiter of ours that has died blocks the lock for `wait` at
--   most, however many of them died at once.
-- - A waiter of Redisson takes its own wait off the times of all others when it gets the lock, and
--   off those behind it when it gives up. Ours may learn of that only a second later, so behind
--   Redisson's each has as much more as they can take off (parts/reckon.lua), reckoned anew with
--   each question. Nobody else's time needs to change when one of ours leaves.
-- - Redisson's waiters may have taken off less. Then ours have too much, and each that asks gives
--   it back; for those who stand first, with nobody of Redisson's before them, whoever asks does
--   it, for they may be dead.
-- - Who asks is never removed for being late. If a dead head is removed here, who stands first now
--   is told: a waiter of Redisson sleeps for as long as the one before it seemed to live.
-- Errors come before anything is changed, but for dead heads, which are removed anyway.
local queue, timeouts, wait = KEYS[3], KEYS[4], tonumber(ARGV[5])
--include sizes
--include queue
local function is_listed(owner)
    for _, member in ipairs(redis.call('LRANGE', queue, 0, -1)) do
        if member == owner then
            return true
        end
    end
    return false
end
local owner = ARGV[1]
local ttl = redis.call('PTTL', KEYS[2])
--include reckon
-- List and set have the same members, unless somebody has meddled with them.
local function stand()
    local in_step = redis.call('LLEN', queue) == redis.call('ZCARD', timeouts)
    local dead_at = redis.call('ZSCORE', timeouts, owner)
    local listed = in_step and dead_at
    if not in_step then
        listed = is_listed(owner)
    end
    local new = reckon(owner, listed and dead_at)
    if not listed then
        redis.call('RPUSH', queue, owner)
    end
    redis.call('ZADD', timeouts, string.format('%.0f', new), owner)
end
local free = ttl == -2
local asked = not free and redis.call('HEXISTS', KEYS[2], owner) == 1
local head, removed = nil, 0
if length > 0 then
    head, removed = purge(owner)
end
if not asked and not (free and (not head or head == owner)) then
    if head and head ~= owner then
        limit(head)
    end
    if ARGV[6] == '1' then
        stand()
    end
    if free then
        if removed > 0 then
            redis.pcall('PUBLISH', ARGV[7] .. ':' .. head, '0')
        end
        ttl = math.min((redis.call('ZSCORE', timeouts, head) or now) - now, 1000)
    end
    return ttl == -1 and -1 or -2 - math.max(ttl, 1)
end
local counter_ttl, floor = ARGV[3], ARGV[4]
--include token
if not asked then
    if length > 0 then
        redis.call('ZREM', timeouts, owner)
        redis.call('LREM', queue, 0, owner)
    elseif times > 0 then
        redis.pcall('DEL', timeouts)
    end
    redis.call('HSET', KEYS[2], owner, 1)
end
local limited = redis.pcall('PEXPIRE', KEYS[2], ARGV[2])
if limited ~= 1 then
    if not asked and redis.pcall('HDEL', KEYS[2], owner) ~= 1 then
        redis.call('DEL', KEYS[2])
    end
    return limited
end
return token
