-- SPDX-License-Identifier: Apache-2.0
--
-- Give a tenure the fair lock if it is free and nobody stands before the tenure, or if it is the
-- tenure's own already; otherwise let it stand in the queue, if it asks for that.
--
-- KEYS   1 the token counter, 2 the lock, 3 the queue, 4 when who counts as dead
-- ARGV   1 the owner string, 2 the lease in ms, 3 how long a new token counter lives in s
--        (0: ever), 4 what no token may be below (see parts/token.lua), 5 how long a waiter of ours
--        is believed to live without a word in ms, 6 '1': stand in the queue, '0': only try
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
-- - Behind somebody who counts as alive for longer than that, a waiter of Redisson for instance,
--   the time is Redisson's sum: that one's and `wait`. For when that one gets the lock or gives up
--   it takes its own wait off the times of all behind it. Of those who died there, each blocks the
--   lock for `wait` after the one before, the first when the time of that one is over.
-- - A time is never set back here. Who asks is never removed for being late.
-- Errors come before anything is changed, but for dead heads, which are removed anyway.
local queue, timeouts, wait = KEYS[3], KEYS[4], tonumber(ARGV[5])
local length, times = redis.pcall('LLEN', queue), redis.pcall('ZCARD', timeouts)
for _, size in ipairs({length, times}) do
    if type(size) == 'table' then
        return size.err:find('WRONGTYPE', 1, true) and
            redis.error_reply('QUEUETYPE not a queue of waiters') or size
    end
end
--include queue
--include leave
local function is_listed(owner)
    for _, member in ipairs(redis.call('LRANGE', queue, 0, -1)) do
        if member == owner then
            return true
        end
    end
    return false
end
-- List and set have the same members, unless somebody has meddled with them.
local function stand(owner)
    local in_step = redis.call('LLEN', queue) == redis.call('ZCARD', timeouts)
    local dead_at = redis.call('ZSCORE', timeouts, owner)
    local listed = in_step and dead_at
    if not in_step then
        listed = is_listed(owner)
    end
    local new = now + wait
    if not listed then
        local last = redis.call('LINDEX', queue, -1)
        local before = last and redis.call('ZSCORE', timeouts, last)
        if before and tonumber(before) > new then
            new = tonumber(before) + wait
        end
    end
    if not listed then
        redis.call('RPUSH', queue, owner)
    end
    if not listed or not dead_at or tonumber(dead_at) < new then
        redis.call('ZADD', timeouts, string.format('%.0f', new), owner)
    end
end
local owner = ARGV[1]
local ttl = redis.call('PTTL', KEYS[2])
local free = ttl == -2
local asked = not free and redis.call('HEXISTS', KEYS[2], owner) == 1
local head = length > 0 and purge(owner)
if not asked and not (free and (not head or head == owner)) then
    if ARGV[6] == '1' then
        stand(owner)
    end
    if free then
        ttl = math.min((redis.call('ZSCORE', timeouts, head) or now) - now, 1000)
    end
    return ttl == -1 and -1 or -2 - math.max(ttl, 1)
end
local counter_ttl, floor = ARGV[3], ARGV[4]
--include token
if not asked then
    if length > 0 then
        leave(owner)
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
