-- SPDX-License-Identifier: Apache-2.0
--
-- End whatever the tenure holds of a read/write lock, and wake who waits if it is free now.
--
-- KEYS   1 the lock
-- ARGV   1 the channel, 2 the lock's name in braces, 3 the owner string
-- Result 0     the tenure does not hold it
--        n > 0 released; n - 1 subscribers heard of it
--
-- Why so: as release.lua. While others read, the lock lasts as long as the longest of their holds,
-- and no longer; if none of them is alive it ends, as it does when a reader of Redisson leaves. The
-- TTL stays as it is where there are too many readers to look at, or another writes: a reader that
-- leaves never shortens that. The message says `1`, all may try, if a writer leaves; else `0`.
local lock, prefix, owner = KEYS[1], ARGV[2], ARGV[3]
local wrote = redis.call('HDEL', lock, owner .. ':write') == 1
local read = redis.call('HDEL', lock, owner) == 1
if not wrote and not read then
    return 0
end
if read then
    redis.pcall('DEL', prefix .. ':' .. owner .. ':rwlock_timeout:1')
end
if redis.call('HLEN', lock) > 1 then
    if wrote then
        redis.call('HSET', lock, 'mode', 'read')
    elseif redis.call('HGET', lock, 'mode') ~= 'read' then
        return 1
    end
    --include readers
    if complete and longest == -2 then
        redis.call('HDEL', lock, 'mode', unpack(stale))
    else
        if complete and longest < math.huge then
            redis.call('PEXPIRE', lock, math.max(longest, 1))
        end
        if not wrote then
            return 1
        end
    end
else
    redis.call('HDEL', lock, 'mode')
end
local heard = redis.pcall('PUBLISH', ARGV[1], wrote and '1' or '0')
return type(heard) == 'number' and 1 + heard or 1
