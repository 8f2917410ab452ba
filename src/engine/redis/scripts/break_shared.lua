-- SPDX-License-Identifier: Apache-2.0
--
-- Free a read/write lock, whoever holds it, and wake who waits.
--
-- KEYS   1 the lock
-- ARGV   1 the channel, 2 the lock's name in braces
-- Result 1 (it was held), 0 (it was free)
--
-- Why so: as break.lua. The keys of the readers' holds go, too, as far as they are found with a
-- bounded amount of work; the others end with their leases and mean nothing without the lock. What
-- has no mode is a mutex that keeps us out: it is freed, and its own waiters are told.
local lock, prefix = KEYS[1], ARGV[2]
local kind = redis.call('TYPE', lock)['ok']
if kind == 'none' then
    return 0
end
if kind ~= 'hash' then
    return redis.error_reply('WRONGTYPE the key is a ' .. kind)
end
local mode = redis.call('HGET', lock, 'mode')
local fields = redis.call('HSCAN', lock, 0, 'COUNT', 64)[2]
redis.call('DEL', lock)
for i = 1, mode and math.min(#fields, 130) or 0, 2 do
    for hold = 1, math.min(tonumber(fields[i + 1]) or 0, 64) do
        redis.call('DEL', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. hold)
    end
end
redis.pcall('PUBLISH', ARGV[1], mode == 'write' and '1' or '0')
if not mode then
    redis.pcall('PUBLISH', 'redisson_lock__channel:' .. prefix, '0')
end
return 1
