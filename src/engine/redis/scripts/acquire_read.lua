-- SPDX-License-Identifier: Apache-2.0
--
-- Let a tenure read: if nobody holds the lock, or others read.
--
-- KEYS   1 the token counter, 2 the lock
-- ARGV   1 the lock's name in braces, 2 the owner string, 3 the lease in ms, 4 how long a new token
--        counter lives in s (0: ever), 5 what no token may be below (see parts/token.lua), 6 (may
--        be missing) how many tokens in a row are for this grant
-- Result as acquire.lua: > 0 the token, -1 or less: somebody else writes
--
-- Why so: the layout is Redisson's: a field `mode`, a field for each reader, and for each hold of a
-- reader a key of its own with the hold's lease; without that key the next reader of Redisson that
-- leaves deletes the whole lock. Redisson never looks at what that key says, so it keeps the token:
-- asked again by the same tenure the answer is the same, although others may have been granted
-- since. A hash without a mode is a mutex, and excludes readers. The key of the hold is made first
-- and the lock's TTL last, so that a refusal half way leaves no reader behind that nobody sees.
local lock, owner, lease = KEYS[2], ARGV[2], tonumber(ARGV[3])
local hold = ARGV[1] .. ':' .. owner .. ':rwlock_timeout:1'
local ttl = redis.call('PTTL', lock)
local free = ttl == -2
if not free and redis.call('HGET', lock, 'mode') ~= 'read' then
    return ttl < 0 and -1 or -2 - ttl
end
local held = not free and redis.call('HEXISTS', lock, owner) == 1
local asked, counter_ttl, floor, more = false, ARGV[4], ARGV[5], ARGV[6] and ARGV[6] - 1 or 0
local given = held and tonumber(redis.call('GET', hold) or '') or 0
if given < tonumber(floor) then
    --include token
    --include row
    given = token
end
local until_ms = math.max(lease, redis.call('PTTL', hold))
redis.call('SET', hold, string.format('%.0f', given), 'PX', until_ms)
if free then
    redis.call('HSET', lock, 'mode', 'read', owner, 1)
elseif not held then
    redis.call('HSET', lock, owner, 1)
end
local limited = ttl < lease and redis.pcall('PEXPIRE', lock, lease) or 1
if limited ~= 1 then
    if not held then
        redis.call('HDEL', lock, owner, free and 'mode' or owner)
    end
    return limited
end
return given
