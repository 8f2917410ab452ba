-- SPDX-License-Identifier: Apache-2.0
--
-- What is the user who asks not allowed to do with this lock? For Redis 7.0 and later.
--
-- KEYS   none: EVAL itself would be refused if it named a key that is out of bounds
-- ARGV   1 the token counter, or what the records of requests begin with, 2 the lock or the count,
--        3 the channel, 4 the family (mutex, spin, plain, shared, fair, semaphore, permits, latch,
--        or all of them), 5 shared: the lock's name in braces; fair: the queue; permits: their
--        leases, 6 fair: when who counts as dead
-- Result an array of what is missing, as 'what:COMMAND', where `what` is token, lock, hold (the
--        keys of readers), queue, timeouts, record, leases, channel or server
--
-- Why so: a right that is missing is named when the lock is opened, all of them at once, and not
-- one after the other in the middle of the night. Rights for breaking and inspecting are not asked
-- for; who does not do that does not need them.
local missing = {}
local function need(what, command, ...)
    if not redis.acl_check_cmd(command, ...) then
        missing[#missing + 1] = what .. ':' .. command
    end
end
local token, lock, channel, family = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function is(...)
    local any = family == 'all'
    for _, name in ipairs({...}) do
        any = any or family == name
    end
    return any
end
local somebody = ':00000000-0000-0000-0000-000000000000:1' -- ends the keys and channels of one
if is('mutex', 'spin', 'plain', 'shared', 'fair', 'permits') then
    need('lock', 'PTTL', lock)
end
if is('plain', 'semaphore', 'permits', 'latch') then
    need('lock', 'GET', lock)
    need('lock', 'SET', lock, '1')
end
if is('plain', 'latch') then
    need('lock', 'DEL', lock)
end
if is('mutex', 'spin', 'shared', 'fair') then
    need('lock', 'HEXISTS', lock, 'x')
    need('lock', 'HSET', lock, 'x', '1')
    need('lock', 'HDEL', lock, 'x')
    need('token', 'INCR', token)
    need('token', 'GET', token)
    need('token', 'SET', token, '1')
end
if is('mutex', 'spin', 'shared', 'fair', 'permits') then
    need('server', 'TIME')
end
if is('mutex', 'spin', 'plain', 'shared', 'fair') then
    need('lock', 'PEXPIRE', lock, '1')
end
if is('shared') then
    local hold = ARGV[5] .. ':x:rwlock_timeout:1'
    need('lock', 'HGET', lock, 'x')
    need('lock', 'HLEN', lock)
    need('lock', 'HSCAN', lock, '0')
    need('hold', 'PTTL', hold)
    need('hold', 'GET', hold)
    need('hold', 'SET', hold, '1')
    need('hold', 'PEXPIRE', hold, '1')
    need('hold', 'DEL', hold)
end
if is('latch') then
    need('lock', 'DECR', lock)
end
if is('semaphore', 'permits') then
    need('lock', 'INCRBY', lock, '1')
    need('lock', 'DECRBY', lock, '1')
end
if is('semaphore', 'permits', 'latch') then
    need('record', 'GET', token .. somebody)
    need('record', 'SET', token .. somebody, '1')
    need('record', 'DEL', token .. somebody)
end
if is('permits') then
    local leases = ARGV[5]
    need('record', 'EXISTS', token .. somebody)
    need('leases', 'ZSCORE', leases, 'x')
    need('leases', 'ZRANGE', leases, '0', '0')
    need('leases', 'ZADD', leases, '1', 'x')
    need('leases', 'ZREM', leases, 'x')
    need('leases', 'ZREMRANGEBYSCORE', leases, '0', '1')
    need('leases', 'PEXPIRE', leases, '1')
    need('leases', 'DEL', leases)
end
need('server', 'EVALSHA', string.rep('0', 40), '0')
if is('fair') then
    channel = channel .. somebody -- each waiter has its own
    local queue, timeouts = ARGV[5], ARGV[6]
    need('queue', 'LLEN', queue)
    need('queue', 'LINDEX', queue, '0')
    need('queue', 'LRANGE', queue, '0', '-1')
    need('queue', 'LPOP', queue)
    need('queue', 'LREM', queue, '0', 'x')
    need('queue', 'RPUSH', queue, 'x')
    need('timeouts', 'ZCARD', timeouts)
    need('timeouts', 'ZSCORE', timeouts, 'x')
    need('timeouts', 'ZADD', timeouts, '1', 'x')
    need('timeouts', 'ZREM', timeouts, 'x')
end
if family ~= 'spin' and family ~= 'plain' then
    need('channel', 'PUBLISH', channel, '0')
    need('channel', 'SUBSCRIBE', channel)
end
return missing
