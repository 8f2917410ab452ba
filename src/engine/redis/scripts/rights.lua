-- SPDX-License-Identifier: Apache-2.0
--
-- What is the user who asks not allowed to do with this lock? For Redis 7.0 and later.
--
-- KEYS   none: EVAL itself would be refused if it named a key that is out of bounds
-- ARGV   1 the token counter, 2 the lock, 3 the channel, 4 the family (mutex, spin, plain, shared,
--        fair, or all of them), 5 shared: the lock's name in braces; fair: the queue, 6 fair: when
--        who counts as dead
-- Result an array of what is missing, as 'what:COMMAND', where `what` is token, lock, hold (the
--        keys of readers), queue, timeouts, channel or server
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
need('lock', 'PTTL', lock)
local all = family == 'all'
if family == 'plain' then
    need('lock', 'GET', lock)
    need('lock', 'SET', lock, 'x')
    need('lock', 'DEL', lock)
else
    need('lock', 'HEXISTS', lock, 'x')
    need('lock', 'HSET', lock, 'x', '1')
    need('lock', 'HDEL', lock, 'x')
    need('token', 'INCR', token)
    need('token', 'GET', token)
    need('token', 'SET', token, '1')
    need('server', 'TIME')
end
need('lock', 'PEXPIRE', lock, '1')
if all or family == 'shared' then
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
need('server', 'EVALSHA', string.rep('0', 40), '0')
if all or family == 'fair' then
    -- Each waiter has a channel, which its owner string makes a longer name.
    channel = channel .. ':00000000-0000-0000-0000-000000000000:1'
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
if all or family == 'mutex' or family == 'shared' or family == 'fair' then
    need('channel', 'PUBLISH', channel, '0')
    need('channel', 'SUBSCRIBE', channel)
end
return missing
